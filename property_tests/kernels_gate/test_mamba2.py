"""Our own kernels pass their own gate: the quick suite, through the plugin, in the interpreter."""

from __future__ import annotations

from replaycheck.plugin import kernel_suite

TestStep = kernel_suite("replaycheck.adapters.mamba2:step")
TestReplay = kernel_suite("replaycheck.adapters.mamba2:replay")
TestVerify = kernel_suite("replaycheck.adapters.mamba2_verify:verify")
TestSaving = kernel_suite("replaycheck.adapters.mamba2_verify:saving")
