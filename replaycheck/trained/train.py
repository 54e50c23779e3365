"""Training: `python -m replaycheck.trained.train` makes the shipped weights again, in minutes on two cores."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from .corpus import corpus, digest, parts
from .model import HybridModel
from .weights import WEIGHTS

__all__ = ["held_out_loss", "train"]

SEED = 20
STEPS = 500
_BATCH, _LENGTH = 8, 192
_PEAK, _WARM_UP = 5e-3, 40


def train(*, seed: int = SEED, steps: int = STEPS, report: Callable[[str], None] = print) -> tuple[HybridModel, dict[str, str]]:
    """Train a model; returns it with what there is to say of the training, as strings.

    The same seed, versions and number of threads give the same weights; others give weights that are as good.
    """
    torch.manual_seed(seed)
    train_bytes, held_bytes = parts()
    model = HybridModel()
    before = held_out_loss(model, held_bytes)
    report(f"held-out loss before training: {before:.3f} nats a byte")
    optimizer = torch.optim.AdamW(model.parameters(), lr=_PEAK, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _PEAK, total_steps=steps, pct_start=_WARM_UP / max(steps, _WARM_UP + 1))
    started = time.monotonic()
    for step in range(steps):
        loss = _loss(model, _batch(train_bytes))
        optimizer.zero_grad()
        loss.backward()     # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            report(f"step {step}: {loss.item():.3f} nats a byte, {time.monotonic() - started:.0f} s")
    after, seconds = held_out_loss(model, held_bytes), time.monotonic() - started
    report(f"held-out loss after training: {after:.3f} nats a byte, {seconds:.0f} s")
    return model, {
        "description": "trained here on docstrings of the Python standard library", "seed": str(seed), "steps": str(steps),
        "loss_before": f"{before:.4f}", "loss_after": f"{after:.4f}", "seconds": f"{seconds:.0f}", "corpus_sha256": digest(corpus()),
        "corpus_bytes": str(len(train_bytes) + len(held_bytes)), "python": platform.python_version(), "torch": torch.__version__,
    }


@torch.no_grad()
def held_out_loss(model: HybridModel, held: Tensor, *, rows: int = 32, length: int = 512) -> float:
    """Mean loss in nats a byte over `rows` stretches of `length` bytes, evenly spread over the held-out bytes."""
    gap = (len(held) - length - 1) // rows
    return float(_loss(model, torch.stack([held[i * gap: i * gap + length + 1] for i in range(rows)]).long()))


def _loss(model: HybridModel, rows: Tensor) -> Tensor:
    logits, _ = model(rows[:, :-1], model.empty(len(rows)))
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def _batch(text: Tensor) -> Tensor:
    starts = torch.randint(len(text) - _LENGTH - 1, (_BATCH,))
    return torch.stack([text[at: at + _LENGTH + 1] for at in starts.tolist()]).long()


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m replaycheck.trained.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="safetensors file to write (default: the shipped weights)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, said = train(seed=args.seed, steps=args.steps, report=lambda line: print(line, flush=True))
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, args.out, {"trained": json.dumps(said)})
    return 0


if __name__ == "__main__":
    sys.exit(_main())
