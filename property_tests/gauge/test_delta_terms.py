"""The terms of the delta rules add up to the recurrence, and their fields are its derivatives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from delta_windows import window

from replaycheck_reference.recurrences.batched.delta import decompose
from replaycheck_reference.variant import DeltaVariant

BOTH = pytest.mark.parametrize("channels", [False, True])


@BOTH
def test_carried_starts_and_insertions_add_up_to_outputs_and_end(channels: bool) -> None:
    layer, start, run = window(1, 6, variant=DeltaVariant(channels=channels))
    terms = decompose(layer, start, run)
    inserted = terms.beta[..., None] * terms.v
    read = torch.einsum("hpn,mhn->mhp", terms.start, terms.queries[0])
    outputs = read + torch.einsum("jhp,jhn,jmhn->mhp", inserted, terms.k, terms.queries[1:])
    torch.testing.assert_close(outputs, terms.outputs(), rtol=1e-12, atol=1e-13)
    end = terms.carried(terms.start, 0) + torch.einsum("jhp,jhn->hpn", inserted, terms.keys)
    torch.testing.assert_close(end, terms.end(), rtol=1e-12, atol=1e-13)


def test_fields_are_what_small_errors_of_gates_add() -> None:
    layer, start, run = window(2, 4, variant=DeltaVariant(gate="given", A_log=False, bias=False, beta="given"))
    terms, small = decompose(layer, start, run.map(torch.Tensor.double)), 2.0**-20
    for token in range(4):
        g, b = run.g.double().clone(), run.b.double().clone()
        g[token] += small
        later = decompose(layer, start, replace(run.map(torch.Tensor.double), g=g))
        fields = terms.state_fields().unflatten(-1, terms.start.shape[-2:])
        along = terms.carried(terms.start, 0) + sum((fields[:, 2 + 2 * j] for j in range(token)), torch.zeros(()))
        torch.testing.assert_close((later.end() - terms.end()) / small, along, rtol=1e-4, atol=1e-5)
        b[token] *= 1 + small
        later = decompose(layer, start, replace(run.map(torch.Tensor.double), b=b))
        torch.testing.assert_close((later.end() - terms.end()) / small, fields[:, 1 + 2 * token], rtol=1e-4, atol=1e-5)
        seen = (later.outputs() - terms.outputs()) / small
        torch.testing.assert_close(seen, terms.output_fields()[:, :, 1 + 2 * token], rtol=1e-4, atol=1e-5)


@BOTH
def test_batched_windows_are_those_of_each_alone(channels: bool) -> None:
    layer, start, run = window(3, 3, variant=DeltaVariant(channels=channels))
    both = decompose(layer, torch.stack([start, 2 * start]), run.map(lambda t: torch.stack([t, t])))
    for index, factor in enumerate((1, 2)):
        alone = decompose(layer, factor * start, run)
        torch.testing.assert_close(both.state_fields()[index], alone.state_fields(), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(both.output_fields()[index], alone.output_fields(), rtol=1e-13, atol=1e-14)
