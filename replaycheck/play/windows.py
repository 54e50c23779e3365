"""A window: start bits, tokens, outputs and end bits between two publications of a slot's state."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from replaycheck_reference.layer import Tokens

__all__ = ["Window"]


@dataclass(frozen=True, kw_only=True)
class Window:
    """The unit of judging and of exchange.

    request, slot, layer: whose window. position: tokens of the request folded before it. start: [heads, head_dim, state_dim] bits it
    starts from, carried by the checker. tokens: the window's tokens. outputs: [tokens, heads, head_dim] in the output dtype.
    paths: the policy path of each output ("step", "output", "flush"). steps: the schedule step that produced each output.
    end: bits published after the last token, None where the play ended before a publication.
    """

    request: int
    slot: int
    layer: int
    position: int
    start: Tensor
    tokens: Tokens
    outputs: Tensor
    paths: tuple[str, ...]
    steps: tuple[int, ...]
    end: Tensor | None
