"""Which fields of a policy are looser than those of another; no test."""

from __future__ import annotations

from replaycheck.contract.claims import Claims
from replaycheck.infer.lattice import SOFTPLUS, held
from replaycheck.infer.stages import stages
from replaycheck_reference.policy import Policy


def looser(claims: Claims, policy: Policy) -> list[str]:
    """Fields in which a policy is looser than the claimed one."""
    folds = "through" if claims.kind == "step" else claims.policy.paths["flush"].folds
    return [field.name for stage in stages(claims, folds=folds) for field in stage.fields if _rank(field.name, field.values, policy)
            > _rank(field.name, field.values, claims.policy)]


def _rank(name: str, values: tuple[object, ...], policy: Policy) -> float:
    """Units of a softplus are a number, whether they are among those considered or not."""
    softplus = policy.softplus
    if name == "softplus":
        return softplus.units if softplus.form == "relative" else float(SOFTPLUS[-2].units + 1)
    return values.index(held(policy, name))
