"""`replaycheck record MODEL OUT`."""

from __future__ import annotations

import argparse

from replaycheck.cases.recordings import write_recording
from replaycheck.contract.errors import UsageError
from replaycheck.record.models import decoded, opened_model
from replaycheck.record.recorder import Sampling

from .streams import say

__all__ = ["record"]


def record(args: argparse.Namespace) -> int:
    """Run a model over a text, prefill first and then token by token, and write what its recurrent layers received."""
    try:
        sampling = Sampling(layers=args.layers, tokens=args.tokens, first=args.first, stretches=args.stretches, every=args.every,
                            budget=args.budget)
    except ValueError as error:
        raise UsageError(f"record: {error}") from error
    model = opened_model(args.model, seed=args.seed)
    recording = decoded(model, sampling, requests=args.requests, prefill=args.prefill, text=args.text)
    write_recording(args.out, recording)
    names = ", ".join(f"{layer.name} ({layer.recurrence})" for layer in recording.layers)
    say(f"recorded {recording.stretches} stretches of {recording.tokens} tokens in {len(recording.layers)} layers: {names}")
    say(f"  {recording.source}")
    say(f"  {args.out}: {args.out.stat().st_size} bytes; play it with: replaycheck validate KERNEL --recording {args.out}")
    return 0
