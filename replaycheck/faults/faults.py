"""The registry of wrong kernels: each with the guarantee it must break, and the smallest case in which that shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Release, Schedule
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Formats
from replaycheck_reference.variant import Mamba2Variant

from . import arithmetic as wrong
from . import bookkeeping as broken
from .base import REPLAY, mixed
from .evaluation import Evaluation
from .host import HostKernel, HostSession
from .variants import NaiveSoftplus

__all__ = ["FAULTS", "FP32", "LIVES", "Fault", "small_case"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A wrong kernel.

    guarantee: the one that must be named among those it breaks. story: the class of public failures it stands for, in one line.
    case: the smallest play in which it shows.
    """

    name: str
    kernel: HostKernel
    guarantee: str
    story: str
    case: Case


_BOTH = Forward(((0, 1), (1, 1)))
_FIRST = Forward(((0, 1),))

FP32 = Formats(state="fp32", activation="fp32", output="fp32")

#: The lives of a pool that the faults need.
LIVES: dict[str, Schedule] = {
    "alone": plain(1, 8),
    "from zero": plain(1, 8, start="zero"),
    "pair": plain(2, 8),
    "long": plain(1, 16),
    "pads": (Admit(0, 0), Admit(1, 1), _BOTH, *[Forward(((0, 1), (PAD, 1)))] * 3, _BOTH, _BOTH),
    "reuse": (Admit(0, 0), _FIRST, _FIRST, Release(0), Admit(0, 1), *[_FIRST] * 6),
    "copy": (Admit(0, 0), _FIRST, _FIRST, Copy(0, 1, 1), *[_BOTH] * 6),
    "rows": (Admit(0, 0), *[Forward(((0, 2),))] * 4),
}


def small_case(name: str, *, life: str = "alone", regime: str = "trained-like", **fields: Any) -> Case:
    """A small case: two heads of 16 x 16, capacity 4, fp32 throughout, unless `fields` says otherwise."""
    schedule = LIVES[life]
    slots = 1 + max(op.dst if isinstance(op, Copy) else op.slot for op in schedule if isinstance(op, (Admit, Copy)))
    small: dict[str, Any] = {"heads": 2, "head_dim": 16, "state_dim": 16, "groups": 1, "capacity": 4, "formats": FP32}
    return Case(name=name, slots=slots, regime=regime, schedule=schedule, **{**small, **fields})


def _fault(name: str, part: type[Evaluation] | type[HostSession], guarantee: str, story: str, *, claims: dict[str, Any] | None = None,
           **case: Any) -> Fault:
    """The base replay kernel with one part replaced."""
    stated = replace(REPLAY.claims, name=name, **(claims or {}))
    changed: dict[str, Any] = {"evaluation": part} if issubclass(part, Evaluation) else {"session": mixed(part, REPLAY.session)}
    kernel = replace(REPLAY, claims=stated, **changed)
    return Fault(name=name, kernel=kernel, guarantee=guarantee, story=story, case=small_case(name, **case))


_GATED = Mamba2Variant(gated=True)
_DT_LIMITS = Mamba2Variant(dt_limits=(5461 * 2.0**-20, 10923 * 2.0**-17))
_SKIP_ROWS = Mamba2Variant(skip_rows=True)
_BF16_STATE = Formats(state="bf16", activation="fp32", output="fp32")
_BF16_OUTPUT = Formats(state="fp32", activation="fp32", output="bf16")

_ARITHMETIC = (
    _fault("bf16-accumulation", wrong.BF16Sums, "outputs",
           "sums kept in the activation format while the result is fp32"),
    _fault("random-order-sums", wrong.RandomOrderSums, "determinism",
           "atomic additions: another order, other bits, at every launch", state_dim=32),
    _fault("tf32-readout", wrong.TF32Readout, "outputs",
           "the default precision of a matrix unit in the readout of an fp32 state"),
    _fault("tf32-token", wrong.TF32Token, "state",
           "the default precision of a matrix unit in the product that folds tokens"),
    _fault("bf16-token-operands", wrong.BF16TokenOperands, "state",
           "weighted inputs put back into the activation format before the fold"),
    _fault("bf16-scores", wrong.BF16Scores, "outputs",
           "scratch for B.C scores allocated in the activation format"),
    _fault("bias-twice", wrong.BiasTwice, "gates",
           "a ring of processed dt taken for one of raw dt: the bias is added again"),
    _fault("softplus-twice", wrong.SoftplusTwice, "gates",
           "a ring of processed dt put through softplus again at every read"),
    _fault("naive-softplus", NaiveSoftplus, "gates",
           "log(1 + e^x) where the claim is a relative error: tokens with small dt fade or vanish", regime="slow", life="from zero"),
    _fault("blended-softplus", wrong.BlendedSoftplus, "finite",
           "both branches of a threshold evaluated and blended by a 0/1 factor: 0 * inf", regime="extreme-dt"),
    _fault("early-branch", wrong.EarlyBranch, "gates",
           "softplus taken for the identity from 2 on, where e^-x is not yet below its rounding", regime="bend"),
    _fault("dt-limits-ignored", wrong.UnlimitedDt, "gates",
           "the limits of dt accepted in the call and applied in prefill alone", variant=_DT_LIMITS),
    _fault("coherent-decay", wrong.CoherentDecay, "gates",
           "a fast exponential that is off by 2^-19 in one direction, at decays near 0.9999", regime="slow"),
    _fault("decay-of-one-is-less", wrong.LowDecayOfOne, "exact",
           "an exponential that gives 1 - 2^-24 at zero: nothing may be forgotten", regime="representable"),
    _fault("short-checkpoint-decay", wrong.ShortCheckpointDecay, "gates",
           "the checkpoint decayed by the tokens since, but for the first"),
    _fault("exclusive-prefix", wrong.ExclusivePrefix, "gates",
           "inclusive and exclusive prefixes of the log decay exchanged"),
    _fault("token-folded-twice", wrong.FoldsTokenTwice, "state",
           "the flush counts the current token as history as well"),
    _fault("ratio-form", wrong.RatioDecays, "finite",
           "weights as e^G times e^-G: the factors overflow where their product does not", regime="spike", life="long", capacity=16),
    _fault("group-modulo", wrong.GroupModulo, "outputs",
           "heads mapped to groups by h % G: groups repeated instead of interleaved", heads=4, groups=2),
    _fault("swapped-heads", wrong.SwappedHeads, "outputs",
           "two heads written in each other's place after a reshape"),
    _fault("gate-before-skip", wrong.GateBeforeSkip, "outputs",
           "the gate multiplies the readout before D x is added", variant=_GATED),
    _fault("skip-of-first-row", wrong.SkipOfFirstRow, "outputs",
           "D of every row taken for one number a head, as the strides of an expanded tensor suggest", variant=_SKIP_ROWS),
    _fault("bf16-state", wrong.BF16State, "state",
           "the state kept in the activation format while fp32 is claimed"),
    _fault("truncated-state", wrong.TruncatedState, "state",
           "a store that drops bits where rounding to nearest is claimed", formats=_BF16_STATE),
    _fault("flushed-state", wrong.FlushedState, "state",
           "subnormals flushed to zero where the claim keeps them", regime="subnormal"),
    _fault("truncated-output", wrong.TruncatedOutput, "rounding",
           "an output cast that drops bits", formats=_BF16_OUTPUT),
    _fault("double-rounded-output", wrong.DoubleRoundedOutput, "rounding",
           "an output cast by way of another format", formats=_BF16_OUTPUT),
    _fault("bf16-output", wrong.BF16Output, "outputs",
           "an fp32 output that only ever held activation-format numbers"),
)

_BOOKKEEPING = (
    _fault("token-lost-at-flush", broken.LosesToken, "state",
           "the flush folds history without the current token"),
    _fault("current-token-excluded", broken.CurrentTokenExcluded, "outputs",
           "j < position where j <= position was meant"),
    _fault("off-by-one-ring", broken.DeadRowRead, "poison",
           "j <= position + 1: one row beyond the newest counts"),
    _fault("stale-rows-multiplied", broken.MultipliesMask, "poison",
           "stale rows masked by a 0/1 factor, so that 0 * NaN gets through"),
    _fault("bf16-ring-dt", broken.BF16RingDt, "gates",
           "the ring of dt allocated in the activation format"),
    _fault("bf16-ring-x", broken.BF16RingX, "state",
           "the ring of x allocated in a narrower format than x"),
    _fault("skip-omitted-on-flush", broken.SkipOmittedOnFlush, "outputs",
           "one of two branches forgets D x"),
    _fault("flush-reads-stored", broken.ReadsStored, "outputs",
           "the flush step reads the rounded state where it claims the unrounded", formats=_BF16_STATE),
    _fault("cursor-advanced-on-pads", broken.AdvancesOnPads, "write-set",
           "a pad's slot of -1 wraps around: the last slot's cursor moves", life="pads"),
    _fault("cursor-advanced-per-layer", broken.AdvancesPerLayer, "continuity",
           "layers that share cursors each advance them", layers=2),
    _fault("stale-cursor", broken.StaleCursor, "continuity",
           "a recycled slot keeps its cursor: rows of nobody are replayed", life="reuse"),
    _fault("copy-forgets-ring", broken.CopyForgetsRing, "poison",
           "a copy takes checkpoint and cursor, and leaves the pending rows behind", life="copy"),
    _fault("copy-restarts-ring", broken.CopyRestartsRing, "movement",
           "a copy takes the checkpoint alone: accepted tokens are lost", life="copy"),
    _fault("start-state-dropped", broken.ForgetsStart, "continuity",
           "a request resumed from a state begins at zero"),
    _fault("pad-writes-last-slot", broken.PadWritesLastSlot, "write-set",
           "a pad's slot of -1 wraps around: the last slot is updated", life="pads"),
    _fault("pad-writes-output", broken.PadWritesOutput, "pads",
           "output rows of pads overwritten where they are claimed untouched", life="pads"),
    _fault("overwrite-between-windows", broken.OverwritesBetweenForwards, "continuity",
           "a live checkpoint rewritten between two forwards: invisible to a check that starts from what it finds in memory"),
    _fault("neighbour-written", broken.WritesNeighbour, "write-set",
           "a tile or index too far: the next slot gets this slot's state", life="pads"),
    _fault("stored-past-the-end", broken.StoresPastEnd, "write-set",
           "a store without its mask goes one element beyond the pool"),
    _fault("inputs-scaled-in-place", broken.WritesInputs, "write-set",
           "an input scaled in place"),
    _fault("last-tile-dropped", broken.LastTileDropped, "finite",
           "a head dim that is no multiple of the tile: the last rows are not written", head_dim=20),
    _fault("first-rows-gates", broken.FirstRowsGates, "isolation",
           "gates not gathered with the tokens: every row uses the first row's", life="pair"),
    _fault("batch-dependent-sums", broken.BatchDependentSums, "isolation",
           "the split of a sum chosen by batch size under a claim of invariance", life="pair"),
    _fault("slot-dependent-sums", broken.SlotDependentSums, "movement",
           "the split of a sum chosen by slot under a claim of invariance", life="pair"),
    _fault("hidden-residual", broken.HiddenResidual, "split",
           "a wider shadow of the state beside what is published: restored bits go on elsewhere", formats=_BF16_STATE),
    _fault("row-taken-as-one-token", broken.RowAsOneToken, "poison",
           "a row of several tokens handled as if it were one", life="rows"),
)

#: Wrong kernels by name. Every one must be rejected.
FAULTS: dict[str, Fault] = {fault.name: fault for fault in (*_ARITHMETIC, *_BOOKKEEPING)}
