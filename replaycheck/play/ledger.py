"""What the checker carries for every live slot: the bits last published, and the tokens and outputs since.

A window's start is never read back from the kernel's memory: reading it back would launder an overwrite between windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from replaycheck_reference.layer import Tokens

from .windows import Window

__all__ = ["Life", "Track"]


@dataclass
class Track:
    """One layer of one request.

    bits: the state last published, on the device. position: how many tokens it contains. outputs, paths, steps: of the tokens since.
    everything: the outputs of every token, from position 0. published: every (position, bits on the CPU) since the request was admitted.
    suspended: a difference was reported, and nothing more is until the next publication.
    """

    bits: Tensor
    position: int = 0
    outputs: list[Tensor] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    everything: list[Tensor] = field(default_factory=list)
    published: list[tuple[int, Tensor]] = field(default_factory=list)
    suspended: bool = False

    def append(self, outputs: Tensor, path: str, step: int) -> None:
        """The outputs [tokens, heads, head_dim] of one committed row, on the CPU."""
        self.everything.append(outputs)
        self.outputs += list(outputs.unbind(0))
        self.paths += [path] * len(outputs)
        self.steps += [step] * len(outputs)

    def close(self, life: Life, layer: int, tokens: Tokens, count: int, end: Tensor | None) -> Window:
        """The window of the first `count` tokens since the last publication. tokens: all tokens of the request."""
        window = Window(
            request=life.request, slot=life.slot, layer=layer, position=self.position, start=self.bits.detach().cpu().clone(),
            tokens=tokens[slice(self.position, self.position + count)], outputs=torch.stack(self.outputs[:count]),
            paths=tuple(self.paths[:count]), steps=tuple(self.steps[:count]), end=end,
        )
        for kept in (self.outputs, self.paths, self.steps):
            del kept[:count]
        return window

    def drafted(self, life: Life, layer: int, tokens: Tokens, drafts: Tokens, outputs: Tensor, path: str, step: int) -> Window:
        """The window of rejected drafts and their outputs: after all tokens since the last publication. tokens: all of the request."""
        since: Any = tokens[slice(self.position, self.position + len(self.outputs))]
        return Window(
            request=life.request, slot=life.slot, layer=layer, position=self.position, start=self.bits.detach().cpu().clone(),
            tokens=type(since).cat([since, drafts]), outputs=torch.cat([*(kept[None] for kept in self.outputs), outputs]),
            paths=(*self.paths, *[path] * len(drafts)), steps=(*self.steps, *[step] * len(drafts)), end=None,
        )

    def publish(self, bits: Tensor, position: int) -> None:
        """`bits`, on the device, hold the first `position` tokens."""
        self.bits, self.position, self.suspended = bits.clone(), position, False
        self.published.append((position, bits.detach().cpu().clone()))

    def copied(self) -> Track:
        """The track of a copy of the request."""
        return replace(self, bits=self.bits.clone(), outputs=list(self.outputs), paths=list(self.paths), steps=list(self.steps),
                       everything=list(self.everything), published=list(self.published))


@dataclass
class Life:
    """One request while it occupies a slot.

    committed: tokens committed so far. base: the position at which the slot was last admitted; `stored` counts from there.
    """

    request: int
    slot: int
    tracks: list[Track]
    committed: int = 0
    base: int = 0

    def pending(self) -> bool:
        """Whether some committed token is not published yet."""
        return any(track.position < self.committed for track in self.tracks)

    def copied(self, request: int, slot: int) -> Life:
        """The life of a copy of the request, which goes on as `request` in `slot`."""
        return Life(request=request, slot=slot, tracks=[t.copied() for t in self.tracks], committed=self.committed, base=self.base)
