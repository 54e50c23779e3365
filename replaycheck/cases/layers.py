"""Layer presets: geometries of layers in use, and small twins that keep what is particular about them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRESETS", "Geometry", "preset"]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Size of one layer: the state of a request is [heads, head_dim, state_dim]; groups share B and C.

    Raises ValueError naming the dim where one is below 1 or groups do not divide heads.
    """

    heads: int
    head_dim: int
    state_dim: int
    groups: int = 1
    description: str = ""

    def __post_init__(self) -> None:
        for name in ("heads", "head_dim", "state_dim", "groups"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if self.heads % self.groups:
            raise ValueError(f"groups must divide heads, got groups {self.groups} and heads {self.heads}")


#: By name. Sizes are those of one layer without tensor parallelism, as the published model configurations give them.
PRESETS: dict[str, Geometry] = {
    "nemotron-3-nano-4b": Geometry(heads=96, head_dim=80, state_dim=128, groups=8, description="Nemotron-3 Nano 4B: head dim of 80"),
    "nano-30b": Geometry(heads=64, head_dim=64, state_dim=128, groups=8, description="Nemotron-3 Nano 30B-A3B"),
    "super": Geometry(heads=128, head_dim=64, state_dim=128, groups=8, description="Nemotron-3 Super 120B-A12B"),
    "ultra": Geometry(heads=256, head_dim=64, state_dim=128, groups=8, description="Nemotron-3 Ultra: 32 heads a group"),
    "nano-4b-small": Geometry(heads=4, head_dim=80, state_dim=128, groups=2, description="four heads of nemotron-3-nano-4b"),
    "super-small": Geometry(heads=4, head_dim=64, state_dim=128, groups=2, description="four heads of nano-30b, super and ultra"),
    "ragged": Geometry(heads=3, head_dim=20, state_dim=24, groups=3, description="no dim is a power of two: tails of tiles and of groups"),
    "tiny": Geometry(heads=2, head_dim=16, state_dim=16, groups=1, description="two heads of 16 x 16: whatever needs many plays"),
}


def preset(name: str) -> Geometry:
    """The preset of that name. Raises ValueError listing the known ones."""
    if name not in PRESETS:
        raise ValueError(f"layer {name!r} is not known; known are {', '.join(PRESETS)}")
    return PRESETS[name]
