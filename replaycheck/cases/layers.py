"""Layer presets: geometries of layers in use, and small twins that keep what is particular about them."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck_reference.layer import Layer

__all__ = ["PRESETS", "ROLES", "Geometry", "preset"]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Size of one layer: the state of a request is [heads, head_dim, state_dim]; groups share B and C, or are the key heads of value heads.

    Raises ValueError naming the dim where one is below 1 or groups do not divide heads.
    """

    heads: int
    head_dim: int
    state_dim: int
    groups: int = 1
    description: str = ""

    @staticmethod
    def of(layer: Layer) -> Geometry:
        """That of a layer."""
        return Geometry(heads=layer.heads, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=layer.groups)

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
    "qwen3.5-4b": Geometry(heads=32, head_dim=128, state_dim=128, groups=16, description="Qwen3.5 4B, 9B, 35B-A3B: two heads a key head"),
    "qwen3.5-27b": Geometry(heads=48, head_dim=128, state_dim=128, groups=16, description="Qwen3.5 27B: three heads a key head"),
    "qwen3.5-122b": Geometry(heads=64, head_dim=128, state_dim=128, groups=16, description="Qwen3.5 122B: four heads a key head"),
    "qwen3.5-397b": Geometry(heads=64, head_dim=128, state_dim=128, groups=16, description="Qwen3.5 397B: four heads a key head"),
    "qwen3-next-80b": Geometry(heads=32, head_dim=128, state_dim=128, groups=16, description="Qwen3-Next 80B-A3B"),
    "kimi-linear-48b": Geometry(heads=32, head_dim=128, state_dim=128, groups=32, description="Kimi Linear 48B-A3B, KDA"),
    "kimi-k3": Geometry(heads=96, head_dim=128, state_dim=128, groups=96, description="Kimi K3, KDA"),
    "kimi-k3-tp8": Geometry(heads=12, head_dim=128, state_dim=128, groups=12, description="Kimi K3 on one of eight ranks"),
    "ling-3.0-flash": Geometry(heads=32, head_dim=128, state_dim=128, groups=32, description="Ling 3.0 flash, KDA"),
    "glm5": Geometry(heads=64, head_dim=128, state_dim=128, groups=64, description="the GLM-5 family, KDA"),
    "qwen-small": Geometry(heads=4, head_dim=64, state_dim=64, groups=2, description="four heads of qwen3.5-4b, of half the size"),
    "qwen-27b-small": Geometry(heads=6, head_dim=20, state_dim=24, groups=2,
                               description="qwen3.5-27b: three heads a key head, dims no powers of two"),
    "kimi-small": Geometry(heads=2, head_dim=64, state_dim=64, groups=2, description="two heads of the KDA layers, of half the size"),
    "kimi-ragged": Geometry(heads=4, head_dim=20, state_dim=24, groups=2, description="KDA, values unlike keys, dims no powers of two"),
    "delta-tiny": Geometry(heads=4, head_dim=8, state_dim=16, groups=2, description="four heads of 8 x 16 on two key heads"),
}

#: By recurrence, which preset takes the place of one that a suite names for Mamba-2.
ROLES: dict[str, dict[str, str]] = {
    "gdn": {"super-small": "qwen-small", "nano-4b-small": "qwen-27b-small", "ragged": "qwen-27b-small", "tiny": "delta-tiny"},
    "kda": {"super-small": "kimi-small", "nano-4b-small": "kimi-ragged", "ragged": "kimi-ragged", "tiny": "delta-tiny"},
}


def preset(name: str) -> Geometry:
    """The preset of that name. Raises ValueError listing the known ones."""
    if name not in PRESETS:
        raise ValueError(f"layer {name!r} is not known; known are {', '.join(PRESETS)}")
    return PRESETS[name]
