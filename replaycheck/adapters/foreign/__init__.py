"""Kernels nobody here wrote, taken from their published packages at run time and judged as they are.

published: the file, its package and its digest. alone: loading one module without its framework. sglang_mamba: that module, loaded.
selective_state_update: the kernel a path names. `python -m replaycheck.adapters.foreign` fetches and says where the file lies.
"""
