"""The registry of wrong kernels for speculative decode, in the words of faults.FAULTS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Release, Schedule
from replaycheck.contract.claims import Formats

from . import rollback as wrong
from .faults import Fault
from .speculation import VERIFY, VerifySession

__all__ = ["DRAFT_FAULTS", "LIVES", "speculative_case"]


def _rounds(slot: int, *rows: tuple[int, int]) -> Schedule:
    """Forwards of one row of (tokens, accepted)."""
    return tuple(Forward(((slot, length),), (count,)) for length, count in rows)


def _pairs(*rows: tuple[int, int, int, int]) -> Schedule:
    """Forwards of two rows: tokens and accepted tokens of slot 0, then of slot 1."""
    return tuple(Forward(((0, first), (1, second)), (kept, also)) for first, kept, second, also in rows)


_MANY = ((3, 3), (3, 1), (2, 2), (3, 0), (3, 2), (1, 1), (3, 3), (2, 1), (3, 3), (3, 3))

#: The lives of a pool that the faults need: capacity 4, window 3.
LIVES: dict[str, Schedule] = {
    "alone": (Admit(0, 0), *_rounds(0, *_MANY)),
    "from zero": (Admit(1, 0, "zero"), *_rounds(1, (1, 1), *_MANY)),
    "all accepted": (Admit(0, 0), *_rounds(0, *[(3, 3)] * 7)),
    "no drafts": (Admit(0, 0), *_rounds(0, (2, 2), (1, 1), (3, 2), (1, 1), (2, 2), (3, 1), (3, 3))),
    "pair": (Admit(0, 0), Admit(1, 1), *_pairs((1, 1, 3, 2), (3, 2, 2, 2), (2, 0, 3, 1), (3, 3, 3, 3), (2, 2, 1, 0), (3, 1, 3, 2))),
    "pads": (Admit(0, 0), Admit(1, 1), *[
        Forward(((0, 3), (PAD, 2), (1, 2)), (kept, 1, also)) for kept, also in ((3, 1), (2, 2), (1, 0), (3, 2), (0, 2), (2, 1))
    ]),
    "empty rows": (Admit(0, 0), Admit(1, 1), *_pairs((3, 3, 2, 2), (0, 0, 2, 1), (3, 2, 0, 0), (0, 0, 3, 3), (2, 1, 1, 1), (3, 3, 3, 3))),
    "reuse": (Admit(0, 0), *_rounds(0, (3, 3), (2, 1)), Release(0), Admit(0, 1, "zero"), *_rounds(0, (1, 1), *_MANY[:5])),
    "copy": (Admit(0, 0), *_rounds(0, (3, 3), (3, 2)), Copy(0, 1, 1), *_pairs((3, 1, 2, 2), (2, 2, 3, 3), (3, 3, 1, 1), (3, 2, 3, 2))),
}


def speculative_case(name: str, *, life: str = "alone", **fields: Any) -> Case:
    """A small case: two heads of 16 x 16, capacity 4, window 3, fp32 throughout, unless `fields` says otherwise."""
    small: dict[str, Any] = {"heads": 2, "head_dim": 16, "state_dim": 16, "groups": 1, "capacity": 4, "window": 3, "slots": 3,
                             "formats": Formats(state="fp32", activation="fp32", output="fp32"), "regime": "trained-like"}
    return Case(name=name, schedule=LIVES[life], **{**small, **fields})


def _fault(name: str, session: type[VerifySession], guarantee: str, story: str, **case: Any) -> Fault:
    """The base verify kernel with one decision replaced."""
    kernel = replace(VERIFY, claims=replace(VERIFY.claims, name=name), session=session)
    return Fault(name=name, kernel=kernel, guarantee=guarantee, story=story, case=speculative_case(name, **case))


_ALL = (
    _fault("folds-drafts", wrong.FoldsDrafts, "drafts", "a fold takes the whole window before anyone accepted it"),
    _fault("keeps-rejected", wrong.KeepsRejected, "continuity", "rollback is a no-op: rejected drafts stay in the ring"),
    _fault("certain-token-forgotten", wrong.ForgetsCertainToken, "outputs", "a count of drafts taken for a count of tokens"),
    _fault("zero-taken-for-one", wrong.ZeroTakenForOne, "drafts", "a clamp lets a discarded row advance by one token"),
    _fault("zero-taken-for-all", wrong.ZeroTakenForAll, "continuity", "a count of zero read as 'not known'"),
    _fault("discard-forgets-fold", wrong.DiscardForgetsFold, "continuity", "a discarded row leaves the cursors alone though it has folded"),
    _fault("counts-without-pads", wrong.CountsWithoutPads, "isolation",
           "counts of live rows read by the number of a padded row", life="pads"),
    _fault("gates-of-full-rows", wrong.GatesOfFullRows, "isolation",
           "gates not gathered with the index of speculative tokens", life="pair"),
    _fault("no-draft-reads-first-state", wrong.NoDraftReadsFirstState, "outputs",
           "a row without drafts resumes from the first column after several tokens were accepted", life="no drafts", capacity=8),
    _fault("fold-decided-with-accepted", wrong.DecidesWithAccepted, "continuity",
           "the commit decides by accepted tokens what the row had decided by its window"),
    _fault("sees-folded-rows", wrong.SeesFoldedRows, "outputs", "a row that folds counts the folded rows again"),
    _fault("origin-stays", wrong.OriginStays, "outputs", "a fold empties the ring and leaves its origin where it was"),
    _fault("origin-by-accepted", wrong.OriginByAccepted, "outputs", "the origin moved by what was accepted, not by what was folded"),
    _fault("ring-without-room", wrong.RingWithoutRoom, "drafts", "a ring as long as its capacity: the window overwrites committed rows"),
    _fault("folds-too-late", wrong.FoldsTooLate, "state", "the bound has one token where it needs a window: accepting all overflows",
           life="all accepted"),
    _fault("ring-does-not-turn", wrong.RingDoesNotTurn, "drafts", "rows past the end of the ring clamped to its last"),
    _fault("mask-of-odd-size", wrong.MasksOddSize, "outputs", "a power-of-two mask on a ring of another size"),
    _fault("fold-loses-newest", wrong.FoldLosesNewest, "state", "the last committed row counted as the first draft"),
    _fault("fold-loses-oldest", wrong.FoldLosesOldest, "state", "a fold that begins one row late"),
    _fault("one-row-more", wrong.SeesOneRowMore, "poison", "<= for < at the end of the window: the next draft, or a stale row, is seen"),
    _fault("origin-of-another-slot", wrong.OriginOfFirstSlot, "isolation",
           "origins kept by row of the batch and read by slot", life="pair"),
    _fault("stale-cursor", wrong.StaleCursor, "continuity",
           "the reset of a recycled slot skipped: rows of nobody are replayed", life="reuse"),
    _fault("one-token-keeps-old-state", wrong.OneTokenKeepsOldState, "continuity",
           "a first chunk of one token classed as decode, which loads what the slot held", life="reuse"),
    _fault("alone-drops-start", wrong.AloneDropsStart, "continuity", "an initial state dropped where the batch has one row"),
    _fault("copy-forgets-ring", wrong.CopyForgetsRing, "poison",
           "a snapshot of checkpoint and cursors without the pending rows", life="copy"),
    _fault("copy-forgets-origin", wrong.CopyForgetsOrigin, "movement", "a snapshot without the ring's origin", life="copy"),
    _fault("copy-forgets-pending", wrong.CopyForgetsPending, "movement", "a snapshot of the checkpoint alone", life="copy"),
    _fault("copy-shares-ring", wrong.CopySharesRing, "movement", "a copy that still reads a row of its source", life="copy"),
    _fault("pads-advance", wrong.PadsAdvance, "write-set", "a padded row of a captured graph moves the last slot's cursor", life="pads"),
    _fault("pads-append", wrong.PadsAppend, "write-set", "a padded row appends its tokens to the last slot's ring", life="pads"),
    _fault("pads-write-output", wrong.PadsWriteOutput, "pads",
           "outputs of padded rows zeroed where they are claimed untouched", life="pads"),
    _fault("empty-rows-fold", wrong.EmptyRowsFold, "continuity", "a row without tokens is counted as one that folded", life="empty rows"),
    _fault("slot-zero-is-null", wrong.SlotZeroIsNull, "movement", "slot 0 taken for the null block where the sentinel is -1", life="pair"),
    _fault("cursors-move-with-each-layer", wrong.CursorsMoveWithEachLayer, "continuity", "a stack that shares cursors commits per layer",
           layers=2),
)

#: Wrong kernels for speculative decode by name. Every one must be rejected.
DRAFT_FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
