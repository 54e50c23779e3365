"""The registry of wrong kernels of the delta rules: each twice, with a decay a head and with one a key channel.

What a pool's life shows is bookkeeping that all sessions share, and is looked for once. A naive softplus is not among them: log decays of
its error, an ulp of 1 times exp(A_log), change no decay by more than its own rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from replaycheck.contract.claims import Formats
from replaycheck_reference.variant import DeltaVariant

from . import arithmetic as plain_wrong
from . import bookkeeping as plain_broken
from . import delta_arithmetic as wrong
from . import delta_bookkeeping as broken
from .base import mixed
from .delta_host import gdn_replay, kda_replay
from .evaluation import Evaluation
from .faults import FP32, Fault, small_case

__all__ = ["DELTA_FAULTS"]

_BASES = {"gdn": gdn_replay, "kda": kda_replay}
_BF16_STATE = replace(FP32, state="bf16")
_BF16_OUTPUT = replace(FP32, output="bf16")


def _faults(name: str, part: type[Any], guarantee: str, story: str, *, only: str = "", form: dict[str, Any] | None = None,
            formats: Formats = FP32, **case: Any) -> Iterator[Fault]:
    """The base replay kernel of each delta rule with one part replaced. only: of that rule. form: of the variant."""
    for recurrence, base in _BASES.items():
        if only in ("", recurrence):
            which, own = ("evaluation", base.evaluation) if issubclass(part, Evaluation) else ("session", base.session)
            changed: dict[str, Any] = {which: mixed(part, own)}
            named = f"{recurrence}-{name}"
            kernel = replace(base, claims=replace(base.claims, name=named), **changed)
            variant = DeltaVariant(channels=recurrence == "kda", **(form or {}))
            made = small_case(named, formats=formats, recurrence=recurrence, variant=variant, **case)
            yield Fault(name=named, kernel=kernel, guarantee=guarantee, story=story, case=made)


def _pool_faults(name: str, part: type[Any], guarantee: str, story: str, **case: Any) -> Iterator[Fault]:
    """One that has nothing to do with the rule."""
    return _faults(name, part, guarantee, story, only="gdn", **case)


_BOUND: dict[str, Any] = {"gate": "lower_bound"}

_GATES = (
    *_faults("bf16-beta", wrong.BF16Beta, "state",
             "beta put through the activation format, as where the sigmoid is cast back to the dtype of its logit"),
    *_faults("bf16-decay", wrong.BF16Decay, "gates",
             "decays held in the activation format: those above 0.998 become 1"),
    *_faults("beta-not-doubled", wrong.BetaUndoubled, "state",
             "beta left in (0, 1) where the layer lets it reach 2", form={"beta": "doubled"}),
    *_faults("beta-of-first-head", wrong.BetaOfFirstHead, "state",
             "one beta for all heads, as a stride of zero gives"),
    *_faults("beta-on-value-alone", wrong.BetaOnValueAlone, "state",
             "beta v - S k: beta does not reach the prediction"),
    *_faults("bias-forgotten", wrong.BiasForgotten, "gates",
             "the bias of the gate read by prefill and not by decode"),
    *_faults("rate-forgotten", wrong.GateWithoutA, "gates",
             "exp(A_log) taken for 1, as for a layer that has none"),
    *_faults("bound-as-clamp", wrong.ClassicBounded, "gates",
             "the classic gate held to its lower bound where lower_bound sigmoid(...) is meant", form=_BOUND),
    *_faults("rate-outside-sigmoid", wrong.RateOfBound, "gates",
             "exp(A_log) multiplies the sigmoid of the bounded gate, not its argument", form=_BOUND),
    *_faults("blended-softplus", plain_wrong.BlendedSoftplus, "finite",
             "both branches of a threshold evaluated and blended by a 0/1 factor: 0 * inf", regime="extreme-dt"),
    *_faults("early-branch", plain_wrong.EarlyBranch, "gates",
             "softplus taken for the identity from 2 on", regime="bend"),
    *_faults("coherent-decay", plain_wrong.CoherentDecay, "gates",
             "a fast exponential that is off by 2^-19 in one direction", regime="slow"),
    *_faults("decay-of-one-is-less", plain_wrong.LowDecayOfOne, "exact",
             "an exponential that gives 1 - 2^-24 at zero: nothing may be forgotten", regime="representable"),
    *_faults("first-channels-decay", wrong.ChannelsOfFirst, "gates",
             "a head taken to have one decay where each of its key channels has its own", only="kda"),
    *_faults("values-decay", wrong.DecaysValues, "state",
             "decays of key channels laid along the values, which have as many", only="kda"),
)

_KEYS = (
    *_faults("scale-before-norm", wrong.ScaleBeforeNorm, "outputs",
             "queries scaled before they are normalised, which takes the scale away again"),
    *_faults("raw-query", wrong.QueryRaw, "outputs",
             "keys normalised and queries not"),
    *_faults("eps-outside", wrong.EpsOutside, "state",
             "eps added to the norm where it belongs inside the root: small keys differ", regime="key-tiny"),
    *_faults("no-eps", wrong.NoEps, "finite",
             "no eps at all: a key of zeros is divided by zero", regime="key-zero"),
    *_faults("mean-norm", wrong.MeanNorm, "state",
             "the mean of squares under the root, as in a norm of activations", regime="beta-half"),
    *_faults("bf16-key", wrong.BF16Key, "state",
             "normalised keys put back into the activation format"),
    *_faults("head-modulo", wrong.HeadModulo, "outputs",
             "key heads repeated where each serves neighbouring value heads: repeat for repeat_interleave", heads=4, groups=2),
)

_RULE = (
    *_faults("decay-after-prediction", wrong.DecayAfterPrediction, "state",
             "the prediction taken of the state before its decay"),
    *_faults("bf16-prediction", wrong.BF16Prediction, "state",
             "what the state has at a key put through the activation format before it is subtracted"),
    *_faults("tf32-prediction", wrong.TF32Prediction, "state",
             "the default precision of a matrix unit in the prediction"),
    *_faults("tf32-insertion", wrong.TF32Insert, "state",
             "the default precision of a matrix unit in the product that folds deltas in"),
    *_faults("tf32-readout", plain_wrong.TF32Readout, "outputs",
             "the default precision of a matrix unit in the readout of an fp32 state"),
    *_faults("bf16-sums", plain_wrong.BF16Sums, "outputs",
             "sums kept in the activation format while the result is fp32"),
    *_faults("random-order-sums", plain_wrong.RandomOrderSums, "determinism",
             "atomic additions: another order, other bits, at every launch", state_dim=32),
    *_faults("reads-before-update", broken.ReadsBefore, "outputs",
             "the query reads the state before its token was folded in"),
    *_faults("predicts-from-checkpoint", broken.PredictsFromCheckpoint, "state",
             "the delta sees the checkpoint and not the ring: what it replaces is added to instead", regime="key-repeated"),
)

_STORAGE = (
    *_faults("transposed-state", broken.Transposed, "state",
             "keys along the rows and values along the columns: no shape shows it where both have one dim"),
    *_faults("bf16-state", plain_wrong.BF16State, "state",
             "the state kept in the activation format while fp32 is claimed"),
    *_faults("truncated-state", plain_wrong.TruncatedState, "state",
             "a store that drops bits where rounding to nearest is claimed", formats=_BF16_STATE),
    *_faults("flushed-state", plain_wrong.FlushedState, "state",
             "subnormals flushed to zero where the claim keeps them", regime="subnormal", seed=2),
    *_faults("truncated-output", plain_wrong.TruncatedOutput, "rounding",
             "an output cast that drops bits", formats=_BF16_OUTPUT),
    *_faults("hidden-residual", plain_broken.HiddenResidual, "split",
             "a wider shadow of the state beside what is published", formats=_BF16_STATE),
)

_RING = (
    *_faults("raw-key-in-ring", broken.RawKeyInRing, "outputs",
             "the key as it came in the ring: it was the normalised one that the delta was worked out with"),
    *_faults("bf16-ring-key", broken.BF16RingKey, "state",
             "the ring rounds its keys: replay folds another key than the one that predicted"),
    *_faults("bf16-ring-delta", broken.BF16RingDelta, "state",
             "the ring of deltas allocated in the activation format"),
    *_faults("bf16-ring-gate", broken.BF16RingGate, "gates",
             "the ring of log decays allocated in the activation format"),
    *_faults("residual-in-ring", broken.ResidualInRing, "outputs",
             "the ring holds what beta is still to multiply, and replay folds it as it is"),
    *_faults("off-by-one-ring", broken.StaleRowRead, "poison",
             "j <= position where j < position was meant: the row to be written is replayed first"),
    *_faults("newest-row-lost", broken.LosesNewest, "outputs",
             "j < position - 1 where j < position was meant: the newest row is not replayed"),
    *_faults("stale-rows-multiplied", plain_broken.MultipliesMask, "poison",
             "stale rows masked by a 0/1 factor, so that 0 * NaN gets through"),
    *_faults("prefix-not-reset", broken.PrefixKept, "split",
             "cumulative log decays go on beyond the flush that should start them anew: a restored request has none"),
    *_faults("ratio-form", broken.RatioForm, "finite",
             "weights as e^G times e^-G: the factors overflow where their product does not", regime="spike", life="long", capacity=16),
    *_faults("row-taken-as-one-token", plain_broken.RowAsOneToken, "poison",
             "a row of several tokens handled as if it were one", life="rows"),
)

_FLUSH = (
    *_faults("token-lost-at-flush", broken.LosesToken, "state",
             "the flush decays the state for its own token and does not fold it in"),
    *_faults("token-twice-at-flush", broken.TokenTwice, "state",
             "the flush folds its own token twice: with beta 1 nothing shows", regime="beta-half"),
    *_faults("decayed-twice-at-flush", broken.DecayedTwice, "gates",
             "the flush decays the state that it stores once more"),
    *_faults("flush-reads-stored", plain_broken.ReadsStored, "outputs",
             "the flush step reads the rounded state where it claims the unrounded", formats=_BF16_STATE),
)

_LIFE = (
    *_pool_faults("cursor-advanced-on-pads", plain_broken.AdvancesOnPads, "write-set",
             "a pad's slot of -1 wraps around: the last slot's cursor moves", life="pads"),
    *_pool_faults("cursor-advanced-per-layer", plain_broken.AdvancesPerLayer, "continuity",
             "layers that share cursors each advance them", layers=2),
    *_pool_faults("stale-cursor", plain_broken.StaleCursor, "continuity",
             "a recycled slot keeps its cursor: rows of nobody are replayed", life="reuse"),
    *_pool_faults("copy-forgets-ring", plain_broken.CopyForgetsRing, "poison",
             "a copy takes checkpoint and cursor, and leaves the pending rows behind", life="copy"),
    *_pool_faults("copy-restarts-ring", plain_broken.CopyRestartsRing, "movement",
             "a copy takes the checkpoint alone: accepted tokens are lost", life="copy"),
    *_pool_faults("start-state-dropped", plain_broken.ForgetsStart, "continuity",
             "a request resumed from a state begins at zero"),
    *_pool_faults("pad-writes-last-slot", plain_broken.PadWritesLastSlot, "write-set",
             "a pad's slot of -1 wraps around: the last slot is updated", life="pads"),
    *_pool_faults("pad-writes-output", plain_broken.PadWritesOutput, "pads",
             "output rows of pads overwritten where they are claimed untouched", life="pads"),
    *_pool_faults("overwrite-between-windows", plain_broken.OverwritesBetweenForwards, "continuity",
             "a live checkpoint rewritten between two forwards"),
    *_pool_faults("neighbour-written", plain_broken.WritesNeighbour, "write-set",
             "a tile or index too far: the next slot gets this slot's state", life="pads"),
    *_pool_faults("stored-past-the-end", plain_broken.StoresPastEnd, "write-set",
             "a store without its mask goes one element beyond the pool"),
    *_pool_faults("values-scaled-in-place", broken.WritesValues, "write-set",
             "an input scaled in place"),
    *_pool_faults("last-tile-dropped", plain_broken.LastTileDropped, "finite",
             "a head dim that is no multiple of the tile: the last rows are not written", head_dim=20),
    *_pool_faults("first-rows-beta", broken.FirstRowsBeta, "isolation",
             "betas not gathered with the tokens: every row uses the first row's", life="pair"),
    *_pool_faults("batch-dependent-sums", plain_broken.BatchDependentSums, "isolation",
             "the split of a sum chosen by batch size under a claim of invariance", life="pair"),
    *_pool_faults("slot-dependent-sums", plain_broken.SlotDependentSums, "movement",
             "the split of a sum chosen by slot under a claim of invariance", life="pair"),
)

#: Wrong kernels by name. Every one must be rejected.
DELTA_FAULTS: dict[str, Fault] = {fault.name: fault for fault in (*_GATES, *_KEYS, *_RULE, *_STORAGE, *_RING, *_FLUSH, *_LIFE)}
