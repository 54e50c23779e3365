"""Window checks: pure functions of windows, the layer and the claimed policy. They touch no kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from replaycheck.contract.claims import Claims
from replaycheck.play.result import Play
from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.gauge.functions import FunctionTable
from replaycheck_reference.layer import Layer
from replaycheck_reference.policy import Policy

from .batches import batches
from .continuity import continuity_measurement
from .coverage import covered_cells
from .gates import gate_measurement
from .pooled import pooled_decay_measurements
from .residuals import output_measurement, state_measurement
from .rounding import rounding_measurements

__all__ = ["WINDOW_GUARANTEES", "continuity_measurement", "judge_play", "judge_windows"]

#: Guarantees that window checks speak about.
WINDOW_GUARANTEES = ("outputs", "state", "gates", "rounding")


def judge_windows(
    windows: Sequence[Window], layers: Mapping[int, Layer] | Sequence[Layer], policy: Policy, table: FunctionTable,
    *, case: str = "", regime: str = "",
) -> list[Measurement]:
    """The worst of all windows for each guarantee; "gates" and "rounding" speak of states and of outputs apart. The policy's state and
    output formats are those of the windows' tensors.

    The "outputs" measurement carries the covered cells of the ring in its facts.
    """
    judged = list(batches(windows, layers, policy, table))
    found = [output_measurement(judged), state_measurement(judged), gate_measurement(judged)]
    found += [*pooled_decay_measurements(judged), *rounding_measurements(judged)]
    measurements = [replace(m, case=case, regime=regime) for m in found if m is not None]
    cells = covered_cells(judged)
    return [replace(m, facts={**m.facts, "coverage": cells}) if m.guarantee == "outputs" else m for m in measurements]


def judge_play(play: Play, claims: Claims, table: FunctionTable) -> list[Measurement]:
    """The window checks on every window of a play, under the claimed policy in the formats the case was built for."""
    case = play.case
    policy = claims.policy.built(state=case.formats.state, output=case.formats.output)
    layers = [case.layer(index) for index in range(case.layers)]
    return judge_windows(play.windows, layers, policy, table, case=case.id, regime=case.regime)
