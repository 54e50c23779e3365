"""How the host kernels evaluate the Mamba-2 recurrence: fp32 operations in a declared order, one small method a decision.

A fault or a variant overrides the one method that is wrong or different, never a copy of the kernel. Shapes: H heads, P head_dim,
N state_dim, G groups, R rows of the ring. Formulas: the step and replay forms of the selective state update (Dao and Gu, 2024).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from replaycheck_reference.layer import Mamba2Layer

__all__ = ["Evaluation"]


class Evaluation:
    """fp32 evaluation: sums are balanced trees, weights exp(A * sum of dt since), scores on ordinary replay steps.

    number: the dtype every intermediate is held in. Instances hold no request state; one may serve many sessions.
    """

    number: torch.dtype = torch.float32

    # -- functions and sums ---------------------------------------------------------------------------------------------------
    def exponential(self, x: Tensor) -> Tensor:
        """e^x in the dtype of x, by the host's own function."""
        with np.errstate(over="ignore", under="ignore"):
            return torch.from_numpy(np.exp(x.numpy()))

    def softplus(self, raw: Tensor) -> Tensor:
        """log(1 + e^raw) to a few roundings of its value, raw itself beyond 20 (where they agree in fp32)."""
        grown = torch.from_numpy(np.log1p(np.exp(raw.clamp(max=20).numpy())))
        return torch.where(raw > 20, raw, grown)

    def total(self, terms: Tensor) -> Tensor:
        """Sum over the last axis as a balanced binary tree of roundings."""
        while terms.shape[-1] > 1:
            half = terms.shape[-1] // 2
            pairs = terms[..., :half] + terms[..., half : 2 * half]
            terms = pairs if terms.shape[-1] % 2 == 0 else torch.cat([pairs, terms[..., 2 * half :]], dim=-1)
        return terms[..., 0]

    # -- products: one method each, since a policy names them one by one --------------------------------------------------------
    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        """w x times B, folded into the state."""
        return left * right

    def readout_product(self, state: Tensor, C: Tensor) -> Tensor:
        return state * C

    def score_product(self, B: Tensor, C: Tensor) -> Tensor:
        return B * C

    def value_product(self, score: Tensor, x: Tensor) -> Tensor:
        return score * x

    # -- gates ----------------------------------------------------------------------------------------------------------------
    def decay_rate(self, layer: Mamba2Layer) -> Tensor:
        """A, [H]."""
        decay = layer.decay.to(self.number)
        return -self.exponential(decay) if layer.variant.decay_parameter == "A_log" else decay

    def dt(self, layer: Mamba2Layer, raw: Tensor) -> Tensor:
        """The processed time step, [H], from the raw one."""
        value = raw.to(self.number)
        if layer.dt_bias is not None:
            value = value + layer.dt_bias.to(self.number)
        return self.limits(layer, self.softplus(value) if layer.variant.softplus else value)

    def limits(self, layer: Mamba2Layer, dt: Tensor) -> Tensor:
        """dt held to the limits of the variant."""
        return dt if layer.variant.dt_limits is None else dt.clamp(*layer.variant.dt_limits)

    def decay(self, exponent: Tensor) -> Tensor:
        """The decay e^exponent of a state or token."""
        return self.exponential(exponent)

    def token_decay(self, rate: Tensor, dt: Tensor) -> Tensor:
        """The decay of one token, [H]: the plain step."""
        return self.decay(rate * dt)

    def since(self, dt: Tensor) -> tuple[Tensor, Tensor]:
        """Time since the checkpoint [H] and since each row [R, H], from the dt of the rows [R, H] (0 where dead), newest first."""
        passed = torch.zeros_like(dt[0])
        rows = torch.empty_like(dt)
        for row in range(dt.shape[0] - 1, -1, -1):
            rows[row] = passed
            passed = passed + dt[row]
        return passed, rows

    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        """Decay of the checkpoint [H] and of each row [R, H] up to the newest row."""
        start, rows = self.since(dt)
        return self.decay(rate * start), self.decay(rate * rows)

    def weights(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        """Weight of the checkpoint [H] and of each row's x B [R, H]."""
        start, rows = self.decays(rate, dt)
        return start, rows * dt

    # -- state and output -------------------------------------------------------------------------------------------------------
    def group_of_head(self, layer: Mamba2Layer) -> Tensor:
        """Which group's B and C each head uses, int64 [H]."""
        return layer.group_of_head()

    def step(self, state: Tensor, decay: Tensor, dt: Tensor, x: Tensor, B: Tensor) -> Tensor:
        """The state after one token: state [H, P, N], decay and dt [H], x [H, P], B [H, N]."""
        return state * decay[:, None, None] + self.token_product((dt[:, None] * x)[:, :, None], B[:, None, :])

    def fold(self, state: Tensor, start: Tensor, weights: Tensor, x: Tensor, B: Tensor) -> Tensor:
        """The state after all rows: checkpoint [H, P, N], weights [H] and [R, H], x [R, H, P], B [R, H, N]."""
        terms = self.token_product((weights[..., None] * x)[..., None], B[:, :, None, :])
        return state * start[:, None, None] + self.total(terms.movedim(0, -1))

    def read(self, state: Tensor, C: Tensor) -> Tensor:
        """What a state reads, [H, P], from [H, P, N] and C [H, N]."""
        return self.total(self.readout_product(state, C[:, None, :]))

    def scores(self, B: Tensor, C: Tensor) -> Tensor:
        """B of every row against C, [R, H]."""
        return self.total(self.score_product(B, C[None]))

    def output_only(self, state: Tensor, start: Tensor, weights: Tensor, x: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """The output [H, P] of an ordinary replay step, without rebuilding the state."""
        rows = self.value_product((weights * self.scores(B, C))[..., None], x)
        return start[:, None] * self.read(state, C) + self.total(rows.movedim(0, -1))

    def skip(self, layer: Mamba2Layer, y: Tensor, x: Tensor) -> Tensor:
        """y + D x where the variant has a skip."""
        skip = layer.skip_of_rows()
        return y if skip is None else y + skip.to(self.number) * x

    def gate(self, y: Tensor, z: Tensor | None) -> Tensor:
        """y z sigmoid(z) where the variant is gated."""
        return y if z is None else y * (z / (1 + self.exponential(-z)))

    # -- storage ----------------------------------------------------------------------------------------------------------------
    def store_state(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        return state.to(dtype)

    def store_output(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return y.to(dtype)
