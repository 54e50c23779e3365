"""What arrives at a state: random tokens, the same for every policy of a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .storage import ROW

__all__ = ["DRIVES", "Drives", "MEAN", "amplitude", "generator"]

#: zero-mean: normal, of a scale that makes the settled state of rms 1. positive: half-normal, settling each element at a level of its own,
#: log-uniform in [1, 2), so that every mantissa occurs. decay-only: nothing arrives; the state begins at these levels.
DRIVES = ("zero-mean", "positive", "decay-only")
#: Mean of a half-normal number.
MEAN = math.sqrt(2 / math.pi)


def amplitude(drive: str, decay: float) -> float:
    """What a normal number, or its modulus, is multiplied by, beside the level of the element."""
    return {"zero-mean": math.sqrt(1 - decay * decay), "positive": (1 - decay) / MEAN, "decay-only": 0.0}[drive]


def generator(seed: int, salt: int, device: str = "cpu") -> torch.Generator:
    """Random numbers of one seed and one use."""
    return torch.Generator(device=device).manual_seed((seed << 24) + salt)


class Drives:
    """Tokens of one seed, decayed to the store that ends their period, for cells [decays, drives, rows, ROW].

    level: of each element [rows, ROW]. peak: the largest modulus of a normal number drawn so far.
    """

    def __init__(self, decays: Sequence[float], drives: Sequence[str], *, elements: int, period: int, seed: int, device: str) -> None:
        self.decays, self.drives, self.elements, self.period = decays, drives, elements, period
        self._random = generator(seed, 0, device)
        self.level = torch.exp2(torch.rand(elements // ROW, ROW, dtype=torch.float64, device=device, generator=self._random))
        self.peak = 0.0
        a = torch.tensor(decays, dtype=torch.float64, device=device)
        self._weights = a[:, None] ** torch.arange(period - 1, -1, -1, dtype=torch.float64, device=device)
        self._scales = [torch.tensor([amplitude(drive, decay) for decay in decays], dtype=torch.float64, device=device)[:, None, None]
                        * (self.level if drive == "positive" else 1.0) for drive in drives]

    def start(self) -> Tensor:
        """States before the first token: [decays, drives, rows, ROW]."""
        parts = [self.level if drive == "decay-only" else torch.zeros_like(self.level) for drive in self.drives]
        return torch.stack(parts).expand(len(self.decays), -1, -1, -1).clone()

    def noise(self, tokens: int) -> Tensor:
        """The next normal numbers: [tokens, elements]. Tokens of a seed are the same however many are taken at a time."""
        drawn = torch.randn(tokens, self.elements, dtype=torch.float64, device=self.level.device, generator=self._random)
        self.peak = max(self.peak, float(drawn.abs().max()))
        return drawn

    def arrivals(self, stores: int) -> Tensor:
        """What arrives between the next stores: [stores, decays, drives, rows, ROW]."""
        noise = self.noise(stores * self.period).view(stores, self.period, self.elements)
        parts = []
        for drive, scale in zip(self.drives, self._scales, strict=True):
            if drive == "decay-only":
                parts.append(torch.zeros(stores, len(self.decays), *self.level.shape, dtype=torch.float64, device=noise.device))
                continue
            total = torch.matmul(self._weights, noise.abs() if drive == "positive" else noise)
            parts.append(total.view(stores, len(self.decays), *self.level.shape) * scale)
        return torch.stack(parts, 2)

    def bound(self, drive: str, decay: float, step: int) -> float:
        """Of the error that float64 leaves in the exact trajectory after `step` tokens, in units of the state.

        A store's sum has `period` products of a weight (two units), a number and a scale (three roundings), is added to a product with
        a^period (two units): at most period + 8 roundings of terms whose moduli sum to the largest state there can be, each carried on.
        """
        each = (self.period + 8) * 2.0**-53
        kept = decay**self.period
        stores = step // self.period
        if drive == "decay-only":
            return 2.0 * decay**step * math.expm1(stores * each) + stores * 2.0**-1074
        reached = self.peak * amplitude(drive, decay) * (1 - decay**step) / (1 - decay) * (2.0 if drive == "positive" else 1.0)
        return 1.001 * each * reached * (1 - kept**stores) / (1 - kept)
