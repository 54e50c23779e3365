"""The error budget of a window of a delta rule: running error analysis of a policy, errors carried on by the exact transitions.

An error made at one token meets every later transition. These are multiplied out first, onto the query that reads or the end of the window,
and moduli are taken then: products of moduli would explode where the transitions themselves contract. What a replay rebuilds of the state
errs for its token alone, and lives on in that token's delta only; what a step carries lives on whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...formats.arrays import unit
from ...layer import DeltaLayer
from ...policy import Policy
from ...recurrences.batched.delta import DeltaTerms
from ..functions import FunctionTable
from ..paths import check_paths, folding_path
from .channels import ChannelShares, channel_shares
from .end import carried_end, persistent_end, rebuilt_end, scattered_end
from .gates import delta_errors, held_unit
from .reading import dot
from .run import DeltaRun
from .shares import DeltaShares, delta_shares

__all__ = ["DeltaBound", "bound"]


@dataclass(frozen=True, kw_only=True)
class DeltaBound:
    """Absolute errors allowed before the last rounding: outputs [..., tokens, heads, head_dim], end [..., heads, head_dim, state_dim].

    output_decay: inf, [..., tokens, heads]: how a delta rule answers to a decay is not one field of an output.
    """

    outputs: Tensor
    output_decay: Tensor
    end: Tensor
    shares: DeltaShares | ChannelShares


def bound(
    layer: DeltaLayer, terms: DeltaTerms, policy: Policy, paths: Sequence[str], table: FunctionTable, *, activation: str
) -> DeltaBound:
    """The budget of a window whose token m was computed on policy path `paths[m]`.

    activation: format of q and k. Raises ValueError where a path is not in the policy.
    """
    check_paths(policy, paths, terms.k.shape[-3])
    folding = folding_path(policy, paths)
    errors = {name: delta_errors(layer, terms, policy, policy.paths[name], table) for name in sorted({*paths, folding})}
    given = policy.key if held_unit(policy.key) else "fp32" if layer.variant.norm != "off" else activation
    run = DeltaRun.of(terms, policy, given)
    outputs = torch.stack([run.token(name, errors[name]) for name in paths], -3)
    outputs = outputs + _float64_error(terms) * dot(terms.after.abs() + terms.before.abs(), terms.q.abs())
    carried = folding == "step"
    rounded, gated = (scattered_end(run), 0.0) if carried else rebuilt_end(run, policy.paths[folding], errors[folding])
    end = carried_end(run) + persistent_end(run) + (0.0 if carried else rounded + gated)
    end = end + _float64_error(terms) * (terms.before[..., -1, :, :, :].abs() + terms.end().abs())
    shares = (channel_shares if layer.variant.channels else delta_shares)(terms, errors[folding], run.taken, rounded, carried=carried)
    return DeltaBound(outputs=outputs, output_decay=torch.full_like(terms.beta, torch.inf), end=end, shares=shares)


def _float64_error(terms: DeltaTerms) -> float:
    """Relative error of the float64 reference itself, give or take the size of its largest terms."""
    tokens, state_dim = terms.k.shape[-3], terms.k.shape[-1]
    return unit("fp64") * (state_dim + 4 * tokens + 24) * (tokens + 1)
