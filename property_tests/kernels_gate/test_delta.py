"""Our kernels of the delta rules pass their own gate: the quick suite, through the plugin, in the interpreter."""

from __future__ import annotations

from replaycheck.plugin import kernel_suite

TestGdnStep = kernel_suite("replaycheck.adapters.delta:gdn_step")
TestKdaStep = kernel_suite("replaycheck.adapters.delta:kda_step")
TestGdnReplay = kernel_suite("replaycheck.adapters.delta:gdn_replay")
TestKdaReplayWithANarrowRing = kernel_suite("replaycheck.adapters.delta:kda_replay_bf16")
