"""The lattice of policies: every field that can be inferred, its values from strictest to loosest, and where it shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from replaycheck_reference.policy import Policy, Softplus

__all__ = ["ACCUMULATORS", "PRODUCTS", "SOFTPLUS", "Field", "held", "narrowed", "put", "said", "sound"]

#: Products from strictest to loosest for operands of fp32. fp64 is considered only where sums are fp64: a sum in fp32 hides it.
PRODUCTS = ("fp64", "fp32", "bf16x3", "tf32x3", "tf32_rna", "tf32", "fp16", "bf16")
ACCUMULATORS = ("fp64", "fp32", "tensor", "fp16", "bf16")
#: A sample of dt understates the largest error, so that units are told in steps, and the least is half of what the default allows.
SOFTPLUS: tuple[Softplus, ...] = (
    *(Softplus(form="relative", units=float(units)) for units in (4, 8, 16, 32, 64)), Softplus(form="naive"),
)


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a policy: "gate", "state.rounding" or "paths.flush.readout", with the values considered, strictest first."""

    name: str
    values: tuple[Any, ...]

    def rank(self, policy: Policy) -> int:
        """Where the policy's value stands among those considered."""
        return self.values.index(held(policy, self.name))


def held(policy: Policy, name: str) -> Any:
    """The value of a field. A softplus is told by form and units: from where it is the identity is read off bits."""
    parts = name.split(".")
    if parts[0] == "paths":
        return getattr(policy.paths[parts[1]], parts[2])
    if name == "softplus":
        default = Softplus()
        return replace(policy.softplus, identity_from=default.identity_from,
                       units=policy.softplus.units if policy.softplus.form == "relative" else default.units)
    found: Any = policy
    for part in parts:
        found = getattr(found, part)
    return found


def put(policy: Policy, name: str, value: Any) -> Policy:
    """The policy with another value in one field."""
    parts = name.split(".")
    if parts[0] == "paths":
        return replace(policy, paths={**policy.paths, parts[1]: replace(policy.paths[parts[1]], **{parts[2]: value})})
    if name == "softplus":
        return replace(policy, softplus=replace(value, identity_from=policy.softplus.identity_from))
    if len(parts) == 2:
        return replace(policy, **{parts[0]: replace(getattr(policy, parts[0]), **{parts[1]: value})})
    return replace(policy, **{name: value})


def said(value: Any) -> Any:
    """A value as a report shows it."""
    if isinstance(value, Softplus):
        return value.form if value.form == "naive" else f"relative, {value.units:g} units"
    return value


def sound(policy: Policy) -> bool:
    """Whether a policy is considered: a path is in fp64 as a whole or not at all, since a narrower sum would hide its products."""
    for path in policy.paths.values():
        products = (path.token, path.readout, path.score, path.value)
        if path.accumulator == "fp64" and set(products) != {"fp64"} or path.accumulator != "fp64" and "fp64" in products:
            return False
    return _wide(policy) or "fp64" not in (policy.gate, policy.ring_dt, policy.decay)


def narrowed(policy: Policy) -> Policy:
    """The strictest policy that is considered and no stricter than this: fp64 becomes fp32 where sums are narrower."""
    paths = {}
    for name, path in policy.paths.items():
        wide = {product: "fp32" for product in _NAMED if getattr(path, product) == "fp64"}
        paths[name] = path if path.accumulator == "fp64" else replace(path, **wide)
    narrow = {} if _wide(policy) else {name: "fp32" for name in ("gate", "ring_dt", "decay") if getattr(policy, name) == "fp64"}
    return replace(policy, paths=paths, **narrow)  # type: ignore[arg-type]


_NAMED = ("token", "readout", "score", "value")


def _wide(policy: Policy) -> bool:
    return any(path.accumulator == "fp64" for path in policy.paths.values())
