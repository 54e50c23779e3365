"""The parameters of form of the delta rules: Gated DeltaNet and Kimi Delta Attention."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from .numbers import as_fp32, is_fp32

__all__ = ["DeltaVariant"]

Gate = Literal["classic", "lower_bound", "given"]
Beta = Literal["sigmoid", "doubled", "given"]
Norm = Literal["inside", "outside", "max", "off"]


@dataclass(frozen=True, kw_only=True)
class DeltaVariant:
    """Which form of the gated delta rule is meant; the reference computes every combination exactly.

    channels: the log decay is one number a head and key channel (Kimi Delta Attention), not one a head (Gated DeltaNet).
    gate: "classic", g = -exp(A_log) softplus(raw); "lower_bound", g = lower_bound sigmoid(exp(A_log) raw); "given", g is in the tokens.
    A_log: the layer has A_log; where it has none, exp(A_log) is 1. Only with a gate that is computed.
    bias: raw = g_raw + dt_bias. Only with a gate that is computed.
    lower_bound: negative fp32 number, the least log decay of a token; read where gate is "lower_bound".
    beta: "sigmoid", "doubled" (2 sigmoid, from 0 to 2), or "given", beta is in the tokens.
    norm: what q and k are divided by: "inside", sqrt(sum x^2 + eps); "outside", sqrt(sum x^2) + eps; "max", max(sqrt(sum x^2), eps);
    "off", nothing. eps: fp32 number of at least 0. q is multiplied by the layer's scale after the norm.
    Raises ValueError naming a field that is none of these.
    """

    channels: bool = False
    gate: Gate = "classic"
    A_log: bool = True
    bias: bool = True
    lower_bound: float = -5.0
    beta: Beta = "sigmoid"
    norm: Norm = "inside"
    eps: float = as_fp32(1e-6)

    def __post_init__(self) -> None:
        for name, allowed in (("gate", get_args(Gate)), ("beta", get_args(Beta)), ("norm", get_args(Norm))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"variant.{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("A_log", "bias"):
            if self.gate == "given" and getattr(self, name):
                raise ValueError(f"variant.{name} must be False where variant.gate is 'given', got True")
        if not is_fp32(self.lower_bound) or not self.lower_bound < 0:
            raise ValueError(f"variant.lower_bound must be a negative fp32 number, got {self.lower_bound!r}")
        if not is_fp32(self.eps) or self.eps < 0:
            raise ValueError(f"variant.eps must be an fp32 number of at least 0, got {self.eps!r}")

    @property
    def recurrence(self) -> str:
        """"gdn" where a head has one decay, "kda" where each of its key channels has its own."""
        return "kda" if self.channels else "gdn"

    def to_json(self) -> dict[str, Any]:
        """The form as JSON values."""
        return asdict(self)
