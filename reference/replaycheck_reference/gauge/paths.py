"""Which policy path made what of a window."""

from __future__ import annotations

from collections.abc import Sequence

from ..policy import Policy

__all__ = ["check_paths", "folding_path"]


def check_paths(policy: Policy, paths: Sequence[str], tokens: int) -> None:
    """Raises ValueError where `paths` does not name one path of the policy for each of `tokens`."""
    if len(paths) != tokens:
        raise ValueError(f"paths must name one path a token, got {len(paths)} for {tokens} tokens")
    unknown = sorted(set(paths) - set(policy.paths))
    if unknown:
        raise ValueError(f"path {unknown[0]!r} is not in the policy; it has {', '.join(sorted(policy.paths))}")


def folding_path(policy: Policy, paths: Sequence[str]) -> str:
    """The path that made the end state: that of the last token, or of the step after it where a flush folds the tokens before its own."""
    flush = policy.paths.get("flush")
    return "flush" if paths[-1] == "output" and flush is not None and flush.folds == "before" else paths[-1]
