"""Times the proven closed form on a full layer: python -m replaycheck_reference.recurrences.closed.benchmark

128 heads x 64 x 128, 8 groups, 64 tokens, one request, 50 digits, on one core of a server processor (python-flint 0.9,
FLINT 3.6): 2.2 s to enclose outputs and end state; 1.0 s more to read middles and radii out as float64. Gated: 2.9 s. Radii are then
below 1e-53 of every value.
"""

from __future__ import annotations

import argparse
import time

import torch

from ...layer import Mamba2Layer, Mamba2Tokens
from ...variant import Mamba2Variant
from .mamba2 import closed_form

__all__ = ["main"]


def main() -> None:
    """Print seconds of one core and the largest radii."""
    parser = argparse.ArgumentParser(description="Time the proven closed form of Mamba-2 on one core.")
    for name, default in (("heads", 128), ("head-dim", 64), ("state-dim", 128), ("groups", 8), ("tokens", 64), ("digits", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gated", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    layer, start, tokens = _draw(chosen)
    began = time.process_time()
    enclosure = closed_form(layer, start, tokens, digits=chosen.digits)
    enclosed = time.process_time()
    radii = [balls.radius() / balls.nearest().abs() for balls in (enclosure.outputs, enclosure.end)]
    read = time.process_time()
    elements = layer.heads * layer.head_dim * layer.state_dim * len(tokens)
    print(f"enclose {enclosed - began:.2f} s ({elements / (enclosed - began):.2e} element steps/s), read {read - enclosed:.2f} s")
    print(f"largest radius beside its value: outputs {radii[0].max():.1e}, end {radii[1].max():.1e}")


def _draw(chosen: argparse.Namespace) -> tuple[Mamba2Layer, torch.Tensor, Mamba2Tokens]:
    """A layer like a trained one at its start: A in -(1..16), dt log-uniform in about 1e-3..1e-1."""
    generator = torch.Generator().manual_seed(0)
    H, P, N, G, T = chosen.heads, chosen.head_dim, chosen.state_dim, chosen.groups, chosen.tokens

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    layer = Mamba2Layer(
        heads=H, head_dim=P, state_dim=N, groups=G, variant=Mamba2Variant(gated=chosen.gated),
        decay=-1 - 15 * torch.rand(H, generator=generator), dt_bias=-6.9 + 4.6 * torch.rand(H, generator=generator), D=normal(H),
    )
    tokens = Mamba2Tokens(
        x=normal(T, H, P).bfloat16(), dt=(normal(T, H) / 4).bfloat16(), B=normal(T, G, N).bfloat16(), C=normal(T, G, N).bfloat16(),
        z=normal(T, H, P).bfloat16() if chosen.gated else None,
    )
    return layer, normal(H, P, N), tokens


if __name__ == "__main__":
    main()
