"""Which cells of a ring a play exercised so that a whole token's loss would have been seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .batches import Batch

__all__ = ["Cell", "covered_cells"]

#: (ring position of the current token, age of the token concerned, path)
Cell = tuple[int, int, str]


def covered_cells(judged: Sequence[Batch]) -> list[Cell]:
    """Cells in which losing or doubling the one token puts some output over its budget, whatever the rounding errors present."""
    cells: set[Cell] = set()
    for batch in judged:
        fields = batch.terms.output_fields()[..., 1 :: len(batch.terms.field_kinds()), :].abs()
        visible = fields > 2 * (batch.outputs.budget + batch.outputs.rounding).unsqueeze(-2)
        seen = visible.any(-1).any(2).any(0)
        for token, path in enumerate(batch.paths):
            for other in torch.nonzero(seen[token, : token + 1]).flatten().tolist():
                cells.add((token, token - other, path))
    return sorted(cells)
