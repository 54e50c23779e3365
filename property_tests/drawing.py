"""How many examples Hypothesis draws: counts in the tests are those of a profile that draws 100."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_USUAL = 100


def examples(count: int) -> settings:
    """Draw `count` examples, or as many times more as the profile in use draws more than 100."""
    return settings(max_examples=count * settings.default.max_examples // _USUAL)
