"""Of the kernels shipped, and of a published one, inference finds the policy they declare or a smaller one that explains them as well."""

from __future__ import annotations

import pytest
from lattice_order import looser

from replaycheck.adapters.foreign.published import SELECTIVE_STATE_UPDATE, Unavailable
from replaycheck.infer.infer import infer
from replaycheck.play.worker import Worker
from replaycheck_reference.gauge.functions import load_table

PUBLISHED = "replaycheck.adapters.foreign.selective_state_update:kernel"


@pytest.mark.parametrize("kernel", ["replaycheck.adapters.mamba2:step", "replaycheck.adapters.mamba2:replay", PUBLISHED])
def test_what_is_found_is_what_is_declared_or_smaller(kernel: str) -> None:
    if kernel == PUBLISHED:
        try:
            SELECTIVE_STATE_UPDATE.fetch()
        except Unavailable as reason:
            pytest.skip(str(reason))
    with Worker(kernel) as worker:
        answer, declared = infer(worker, load_table("numpy"), regimes=("fast", "slow")), worker.claims.policy
    found = answer.claims.policy
    assert not answer.unexplained and looser(worker.claims, found) == []
    # what is read from instructions or published states is the declared thing itself, where there are instructions to read
    if not answer.notes:
        assert found.ftz == declared.ftz
        assert {path: p.accumulator for path, p in found.paths.items()} == {path: p.accumulator for path, p in declared.paths.items()}
    assert {path: p.folds for path, p in found.paths.items()} == {path: p.folds for path, p in declared.paths.items()}
    assert found.softplus.form == declared.softplus.form
    assert declared.softplus.identity_from - 2**-18 <= found.softplus.identity_from <= declared.softplus.identity_from
