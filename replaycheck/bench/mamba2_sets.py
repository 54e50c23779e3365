"""Random Mamba-2 layers for timing: several sets of state, ring and inputs, rotated so that no call finds its data in a cache."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.pool import Geometry, Pool, allocate, on_device

__all__ = ["Inputs", "Sets", "softplus_float64"]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One token a row: x [rows, heads, head_dim], dt [rows, heads], B and C [rows, groups, state_dim]; and where the output goes."""

    x: Tensor
    dt: Tensor
    B: Tensor
    C: Tensor
    out: Tensor


class Sets:
    """`count` sets of one layer at batch `rows`. Slot 0 is left free, since some kernels keep it as a sink.

    regime "mixed": A in [-16, -1], dt around 1e-3 .. 1e-1; "near1": A = -1, dt around 1e-4 .. 1e-2, so that decays are near one.
    """

    def __init__(
        self, geometry: Geometry, *, rows: int, state: torch.dtype, capacity: int, count: int = 1, regime: str = "mixed",
        activation: torch.dtype = torch.bfloat16, output: torch.dtype = torch.bfloat16, device: str = "cuda", seed: int = 0,
    ) -> None:
        self.geometry, self.rows, self.capacity, self.device = geometry, rows, capacity, device
        self.activation, self.output = activation, output
        self._generator = torch.Generator(device).manual_seed(seed)
        self.A, self.dt_bias = self._gates(regime)
        self.D = torch.ones(geometry.heads, device=device)
        self.slots = torch.arange(1, rows + 1, dtype=torch.int32, device=device)
        self.pools = [self._pool(state) for _ in range(count)]
        self.inputs = [self.draw() for _ in range(count)]
        self.in_step = [self._cursor(torch.full((rows,), phase)) for phase in range(capacity)]
        self.staggered = self._cursor(torch.arange(rows) % capacity)

    def _normal(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device).normal_(generator=self._generator)

    def _uniform(self, low: float, high: float) -> Tensor:
        return torch.empty(self.geometry.heads, device=self.device).uniform_(low, high, generator=self._generator)

    def _gates(self, regime: str) -> tuple[Tensor, Tensor]:
        low, high = (1e-4, 1e-2) if regime == "near1" else (1e-3, 1e-1)
        dt = torch.exp(self._uniform(math.log(low), math.log(high)))
        A = -torch.ones_like(dt) if regime == "near1" else -self._uniform(1.0, 16.0)
        return A, dt + torch.log(-torch.expm1(-dt))

    def _pool(self, state: torch.dtype) -> Pool:
        pool = allocate(
            self.geometry, slots=self.rows + 1, state=state, activation=self.activation, capacity=self.capacity,
            allocator=on_device(self.device),
        )
        assert pool.ring is not None
        for tensor in (pool.state, pool.ring.x, pool.ring.B):
            tensor.normal_(generator=self._generator)
        pool.ring.dt.uniform_(1e-3, 1e-1, generator=self._generator)
        return pool

    def _cursor(self, used: Tensor) -> Tensor:
        return torch.cat([torch.zeros(1), used]).to(torch.int32).to(self.device)

    def draw(self) -> Inputs:
        """Fresh inputs of one step."""
        g = self.geometry
        return Inputs(
            x=self._normal(self.rows, g.heads, g.head_dim, dtype=self.activation),
            dt=(0.3 * self._normal(self.rows, g.heads, dtype=torch.float32)).to(self.activation),
            B=self._normal(self.rows, g.groups, g.state_dim, dtype=self.activation),
            C=self._normal(self.rows, g.groups, g.state_dim, dtype=self.activation),
            out=torch.empty(self.rows, g.heads, g.head_dim, dtype=self.output, device=self.device),
        )

    def at(self, index: int, cursor: Tensor) -> tuple[Pool, Inputs]:
        """Set `index` (modulo count) with its ring standing at `cursor`."""
        pool = self.pools[index % len(self.pools)]
        assert pool.ring is not None
        return replace(pool, ring=replace(pool.ring, cursor=cursor)), self.inputs[index % len(self.inputs)]

    def step_bytes(self) -> float:
        """The fewest bytes a plain step moves: state read and written, inputs read, output written."""
        return self.rows * (self._io() + 2 * self._state())

    def replay_bytes(self, used: int) -> float:
        """The fewest bytes a replay step moves that finds `used` rows in its ring."""
        g, size = self.geometry, self.activation.itemsize
        row = (g.heads * g.head_dim + g.groups * g.state_dim) * size + g.heads * 4
        folds = used == self.capacity - 1
        ring_rows = used if folds else used + 1
        return self.rows * (self._io() + ring_rows * row + (2 if folds else 1) * self._state())

    def cycle_bytes(self) -> float:
        """`replay_bytes` averaged over one period."""
        return sum(self.replay_bytes(used) for used in range(self.capacity)) / self.capacity

    def _state(self) -> int:
        return self.pools[0].state[0].numel() * self.pools[0].state.element_size()

    def _io(self) -> int:
        g, size = self.geometry, self.activation.itemsize
        return (g.heads * g.head_dim + 2 * g.groups * g.state_dim + g.heads) * size + g.heads * g.head_dim * self.output.itemsize


def softplus_float64(x: Tensor) -> Tensor:
    x = x.double()
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))
