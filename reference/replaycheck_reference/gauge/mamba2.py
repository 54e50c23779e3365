"""The error budget of a Mamba-2 window: running error analysis of a policy over the exact magnitudes of its terms.

Every output and every state element is a sum of terms; a term of size |t| whose factors carry relative errors adds up to
|t| * ((1+e_1)(1+e_2)... - 1). Budgets are these sums, so they hold for any order of operations the policy allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..formats.arrays import unit
from ..layer import Mamba2Layer
from ..policy import Path, Policy
from ..recurrences.batched.mamba2 import Mamba2Terms
from .functions import FunctionTable
from .gates import GateErrors, gate_errors
from .paths import check_paths, folding_path
from .units import accumulator_unit, additions, growth, product_error, storage_error, sum_bias, tiny

__all__ = ["Mamba2Bound", "StateShares", "bound"]


@dataclass(frozen=True, kw_only=True)
class StateShares:
    """The end state's budget by kind, for fitted coefficients; see `recurrence.Shares`.

    allowed: relative error allowed to the decay of the start state, then to each token's weight, [..., heads, 1 + tokens], inf where it is
    zero; biased sums included. shared: relative size of roundings that a whole row or column shares, of products of `row` and `column`.
    scattered: absolute size of all other roundings, [..., heads, head_dim, state_dim].
    weight: of each token at the end, [..., tokens, heads]. row, column: x and B, [..., tokens, heads, head_dim or state_dim].
    """

    allowed: Tensor
    shared: float
    scattered: Tensor
    weight: Tensor
    row: Tensor
    column: Tensor

    @property
    def told(self) -> bool:
        """Every window has coefficients to fit."""
        return True

    def variance(self, rows: Tensor, some: slice) -> Tensor:
        """Nothing but single elements is rounded by itself."""
        return torch.zeros_like(self.weight[some][:, 0, :, None])

    def together(self, rows: Tensor, some: slice) -> Tensor:
        """The most that roundings, one a row or one a column of each token's product, can put into each coefficient."""
        size, row, column = self.weight[some].abs(), self.row[some], self.column[some]
        rows = rows.view(*rows.shape[:-1], row.shape[-1], column.shape[-1])
        by_row = torch.einsum("whipn,wjhn->whipj", rows, column).abs()
        by_column = torch.einsum("whipn,wjhp->whinj", rows, row).abs()
        rowwise = torch.einsum("whipj,wjhp,wjh->whi", by_row, row.abs(), size)
        columnwise = torch.einsum("whinj,wjhn,wjh->whi", by_column, column.abs(), size)
        return self.shared * (rowwise + columnwise)


@dataclass(frozen=True, kw_only=True)
class Mamba2Bound:
    """Absolute errors allowed before the last rounding: outputs [..., tokens, heads, head_dim], end [..., heads, head_dim, state_dim].

    output_decay: relative error allowed to the decay of the start state in each output, with what the z gate, cut operands and biased sums
    of the readout add to it: [..., tokens, heads].
    """

    outputs: Tensor
    output_decay: Tensor
    end: Tensor
    shares: StateShares


def bound(
    layer: Mamba2Layer, terms: Mamba2Terms, policy: Policy, paths: Sequence[str], table: FunctionTable, *, activation: str
) -> Mamba2Bound:
    """The budget of a window whose token m was computed on policy path `paths[m]`.

    activation: format of x, B and C. Raises ValueError where a path is not in the policy.
    """
    check_paths(policy, paths, terms.x.shape[-3])
    folding = folding_path(policy, paths)
    errors = {name: gate_errors(layer, terms, policy, policy.paths[name], table) for name in sorted({*paths, folding})}
    outputs, output_decay = torch.zeros_like(terms.x), torch.zeros_like(terms.decay)
    for name in sorted(set(paths)):
        path, gates = policy.paths[name], errors[name]
        mine = torch.tensor([p == name for p in paths], device=outputs.device)[:, None]
        outputs = torch.where(mine[..., None], _outputs(terms, gates, policy, path, table, activation), outputs)
        biased = product_error(path.readout, given=activation).operand + sum_bias(terms.B.shape[-1], path)
        output_decay = torch.where(mine, gates.decay / terms.decay + biased + _gate_error(terms, policy, table), output_decay)
    end, shares = _end(terms, errors[folding], policy, policy.paths[folding], activation)
    return Mamba2Bound(outputs=outputs, output_decay=output_decay, end=end, shares=shares)


def _end(terms: Mamba2Terms, gates: GateErrors, policy: Policy, path: Path, activation: str) -> tuple[Tensor, StateShares]:
    tokens = terms.x.shape[-3]
    adds = growth(additions(tokens + 1, path.order), accumulator_unit(path.accumulator))
    product = product_error(path.token, given=activation)
    fp32 = unit("fp32")
    begun = (1 + fp32) * (1 + adds) - 1
    later = (1 + fp32) * (1 + product.relative) * (1 + adds) - 1
    start, x, B = terms.start.abs(), terms.x.abs(), terms.B.abs()
    decay, weight = terms.decay[..., -1, :], terms.weight[..., -1, :, :].abs()
    decay_error, weight_error = gates.decay[..., -1, :], gates.weight[..., -1, :, :]

    def outer(row: Tensor) -> Tensor:
        return torch.einsum("...jhp,...jhn->...hpn", row, B)

    scattered = start * (decay * begun)[..., None, None] + outer((weight * later)[..., None] * x)
    scattered = scattered + _end_floor(terms, policy, path, product.absolute)
    gated = start * (decay_error * (1 + begun))[..., None, None] + outer((weight_error * (1 + later))[..., None] * x)
    error = scattered + gated + _float64_error(terms) * (start * decay[..., None, None] + outer(weight[..., None] * x))
    biased = sum_bias(tokens + 1, path)
    shares = StateShares(
        allowed=torch.cat([(decay_error / decay + biased)[..., None], (weight_error / weight + biased).transpose(-1, -2)], -1),
        shared=fp32 + product.operand, scattered=scattered, weight=terms.weight[..., -1, :, :], row=terms.x, column=terms.B,
    )
    return error, shares


def _end_floor(terms: Mamba2Terms, policy: Policy, path: Path, operand: float) -> Tensor:
    """Absolute errors near underflow of one state element: of its sums, of w*x times B, of the decayed start state."""
    floor = tiny(policy, path)
    tokens = terms.x.shape[-3]
    columns = ((floor + operand) * terms.B.abs()).sum(-3)
    return columns[..., :, None, :] + floor * (2 * tokens + 3 + terms.decay[..., -1, :, None, None])


def _outputs(terms: Mamba2Terms, gates: GateErrors, policy: Policy, path: Path, table: FunctionTable, activation: str) -> Tensor:
    count = torch.arange(1, terms.x.shape[-3] + 1, device=terms.x.device)
    size = accumulator_unit(path.accumulator)
    later = torch.tensor([growth(additions(int(k) + 1, path.order) + 1, size) for k in count], dtype=torch.float64, device=terms.x.device)
    state_dim = terms.B.shape[-1]
    readout = product_error(path.readout, given=activation)
    reduced = growth(additions(state_dim, path.order), size)
    factors = _state_factors if path.output == "state" else _score_factors
    begun, weighted = factors(path, later, readout.relative, reduced, activation)
    x, C, B = terms.x.abs(), terms.C.abs(), terms.B.abs()
    start = torch.einsum("...hpn,...mhn->...mhp", terms.start.abs(), C)
    score = torch.einsum("...jhn,...mhn->...mjh", B, C)
    decay, weight = terms.decay, terms.weight.abs()
    begun, weighted = begun[:, None], weighted[:, None, None]
    start_error = gates.decay * (1 + begun) + decay * begun
    weight_error = gates.weight * (1 + weighted) + weight * weighted
    own = _float64_error(terms)
    error = (start_error + own * decay)[..., None] * start
    error = error + torch.einsum("...mjh,...jhp->...mhp", (weight_error + own * weight) * score, x)
    skipped = (1 + unit("fp32")) * (1 + later) - 1
    error = error + terms.skip.abs() * (skipped[:, None, None] + own) + _output_floor(terms, policy, path, readout.absolute)
    if path.folds == "before":
        error = error + _unstored_start(terms, gates, policy, path, C)
    elif path.reads == "stored":
        error = error + _stored_readout(terms, policy, error, C)
    return _gated(terms, policy, error, table)


def _state_factors(path: Path, later: Tensor, readout: float, reduced: float, activation: str) -> tuple[Tensor, Tensor]:
    """Growth of start and token terms where the output is read from the rebuilt state."""
    fp32 = unit("fp32")
    token = product_error(path.token, given=activation).relative
    tail = (1 + later) * (1 + readout) * (1 + reduced)
    return (1 + fp32) * tail - 1, (1 + fp32) * (1 + token) * tail - 1


def _score_factors(path: Path, later: Tensor, readout: float, reduced: float, activation: str) -> tuple[Tensor, Tensor]:
    """Growth of start and token terms where the output is a sum of weighted scores."""
    fp32 = unit("fp32")
    score = product_error(path.score, given=activation)
    value = product_error(path.value, given=activation).relative
    tail = (1 + reduced) * (1 + later)
    return (1 + readout) * (1 + fp32) * tail - 1, (1 + score.relative) * (1 + fp32) * (1 + value) * tail - 1


def _output_floor(terms: Mamba2Terms, policy: Policy, path: Path, operand: float) -> Tensor:
    """Absolute errors near underflow of one output: every product and sum of the readout, the scores and their weighting."""
    floor = tiny(policy, path)
    tokens, state_dim = terms.x.shape[-3], terms.B.shape[-1]
    columns = terms.C.abs().sum(-1)
    per_state = (terms.B.abs().sum(-1) + state_dim)[..., None, :, :]
    scores = torch.einsum("...mjh,...jhp->...mhp", terms.weight.abs() * (per_state + columns[..., :, None, :]), terms.x.abs())
    state = floor * (2 * tokens + 3) + floor * terms.B.abs().amax(-1).sum(-2)[..., None, :]
    whole = state_dim + 2 * tokens + terms.decay * (state_dim + columns) + terms.x.abs().amax(-1).sum(-2)[..., None, :]
    return floor * scores + (floor * whole + (state + operand * (1 + terms.decay)) * columns)[..., None]


def _stored_readout(terms: Mamba2Terms, policy: Policy, error: Tensor, C: Tensor) -> Tensor:
    """What reading the stored instead of the unrounded state adds: its storage error against |C|, for the token that folds."""
    end = terms.end()
    rounded = storage_error(end, torch.zeros_like(end), policy.state)
    last = torch.einsum("...hpn,...hn->...hp", rounded, C[..., -1, :, :])
    added = torch.zeros_like(error)
    added[..., -1, :, :] = last
    return added


def _unstored_start(terms: Mamba2Terms, gates: GateErrors, policy: Policy, path: Path, C: Tensor) -> Tensor | float:
    """What an output adds that is read from the start state as it was before it was rounded for storing: its storage error against |C|.

    Nothing where the sums that made the state are held in a format as narrow as the stored one, or where the stored state is read.
    """
    if path.reads == "stored" or unit(policy.state.format) <= accumulator_unit(path.accumulator):
        return 0.0
    rounded = storage_error(terms.start, torch.zeros_like(terms.start), policy.state)
    return (terms.decay + gates.decay)[..., None] * torch.einsum("...hpn,...mhn->...mhp", rounded, C)


def _silu_error(z: Tensor, policy: Policy, table: FunctionTable) -> Tensor:
    """Relative error of silu: as measured, or by way of the policy's own exponential.

    sigmoid may be formed by division or reciprocal, z multiplied before or after: five roundings more cover every form.
    """
    return torch.maximum(table.error("silu", z), table.error(policy.exponential, -z)) + growth(5, unit("fp32"))


def _gate_error(terms: Mamba2Terms, policy: Policy, table: FunctionTable) -> Tensor | float:
    """The largest relative error of the z gate over the rows of each output: [..., tokens, heads]."""
    return 0.0 if terms.z is None else _silu_error(terms.z, policy, table).amax(-1)


def _gated(terms: Mamba2Terms, policy: Policy, error: Tensor, table: FunctionTable) -> Tensor:
    """The budget behind the z gate: silu as the table has it, a rounding more, and a flushed sigmoid where e^-z overflows."""
    gate = terms.gate
    if gate is None or terms.z is None:
        return error
    silu = _silu_error(terms.z, policy, table)
    value = terms.ungated().abs()
    flushed = 2.0**-124 * (1 + terms.z.abs())
    return error * gate.abs() * (1 + silu) + value * gate.abs() * silu + (value + error) * flushed


def _float64_error(terms: Mamba2Terms) -> float:
    """Relative error of the float64 reference itself, of the companion sums."""
    tokens, state_dim = terms.x.shape[-3], terms.B.shape[-1]
    largest = float(terms.total.abs().max()) if terms.total.numel() else 0.0
    return unit("fp64") * (state_dim + 4 * tokens + 24 + 4 * min(largest, 1e3))
