"""Proofs of the ranges of a chain: the words of its witnesses, compared with it.

A witness that cosigned a tree vouches for every entry in it, from the time it says on. The owner
of all keys of a home can sign another history, but cannot have it cosigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.audit.witness_entries import COSIGNED, COSIGNED_FORM, STAMPED, STAMPED_FORM
from pointsman.errors import PointsmanError
from pointsman.kernel.checkpoint import origin
from pointsman.kernel.cosignature import TreeHead, read_cosigned
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import SECOND, Instant, instant_text
from pointsman.kernel.note import NoteKey
from pointsman.kernel.verification import ChainReport, Fault, FaultCode
from pointsman.storage.policies.witness_settings import WitnessSettings
from pointsman.storage.stores.entries import LedgerReader

Against = Literal["outsiders", "operator_without_key", "operator_with_key"]
"""Who cannot have changed a range unnoticed; each includes those before it."""

TOLD: Final[Mapping[Against, str]] = {
    "outsiders": "proven against all without a key, save putting back a whole older database",
    "operator_without_key": "proven against all without a key; nothing speaks against the owner",
    "operator_with_key": "proven against everyone, the owner with all keys included",
}


class WitnessWord(Struct, frozen=True):
    """The largest tree of a chain that a witness cosigned, and when."""

    witness: str
    size: int
    at: Instant


class RangeProof(Struct, frozen=True):
    """A range of entries, from `first` up to and without `end`, and against whom it is proven."""

    first: int
    end: int
    against: Against


class ChainProof(Struct, frozen=True):
    """The proofs of one chain; `stamped` is how far a time stamp covers it, and its time."""

    chain: str
    ranges: tuple[RangeProof, ...]
    witnesses: tuple[WitnessWord, ...]
    stamped: tuple[int, Instant] | None = None


class WitnessTerms(Struct, frozen=True):
    """The witnesses a verifier believes, how many must agree, and the notes they gave.

    `seen` holds notes fetched from witnesses just now; those on record are read anyway.
    """

    keys: tuple[NoteKey, ...] = ()
    quorum: int = 1
    seen: tuple[str, ...] = ()


def terms_of(settings: WitnessSettings, seen: Sequence[str] = ()) -> WitnessTerms:
    """Return the terms of a home's settings, or of a verifier's own."""
    return WitnessTerms(tuple(each.note_key for each in settings.of), settings.quorum, tuple(seen))


class CosignedTree(Struct, frozen=True):
    """A tree that a witness cosigned."""

    head: TreeHead
    word: WitnessWord


def cosigned_trees(reader: LedgerReader | None, terms: WitnessTerms) -> list[CosignedTree]:
    """Return every tree that a believed witness cosigned: from the ledger, and as just told."""
    notes = list(terms.seen)
    if reader is not None and terms.keys:
        for stored in reader.of_kind(COSIGNED):
            try:
                notes.append(COSIGNED_FORM.decode(stored.entry.payload).note)
            except PointsmanError:  # it is verified as an entry, and says nothing here
                continue
    found = []
    for note in notes:
        try:
            head, cosignatures = read_cosigned(note, terms.keys)
        except ValueError:
            continue
        found += [
            CosignedTree(head, WitnessWord(each.witness, head.size, Instant(each.at_s * SECOND)))
            for each in cosignatures
        ]
    return found


def stamps_by_origin(reader: LedgerReader | None) -> dict[str, tuple[int, Instant]]:
    """Return how far time stamps cover each log, as recorded when each was verified."""
    found: dict[str, tuple[int, Instant]] = {}
    if reader is None:
        return found
    for stored in reader.of_kind(STAMPED):
        try:
            entry = STAMPED_FORM.decode(stored.entry.payload)
        except PointsmanError:
            continue
        if entry.size >= found.get(stored.entry.ref, (0, Instant(0)))[0]:
            found[stored.entry.ref] = entry.size, Instant(entry.stamped_us)
    return found


def prove_chain(
    chain: Chain,
    report: ChainReport,
    trees: Iterable[CosignedTree],
    quorum: int,
    stamped: tuple[int, Instant] | None,
) -> ChainProof:
    """Tell against whom each range of a verified chain is proven."""
    newest: dict[str, WitnessWord] = {}
    for tree in trees:
        word = tree.word
        if tree.head.origin != origin(chain) or word.size > report.signed:
            continue
        before = newest.get(word.witness)
        if before is None or (before.size, before.at) < (word.size, word.at):
            newest[word.witness] = word
    words = sorted(newest.values(), key=lambda word: (-word.size, word.witness))
    witnessed = words[quorum - 1].size if len(words) >= quorum and report.fault is None else 0
    signed = report.signed if report.fault is None else 0
    end = report.entries if report.fault is None else 0
    bounds: list[tuple[int, Against]] = [
        (witnessed, "operator_with_key"),
        (signed, "operator_without_key"),
        (end, "outsiders"),
    ]
    ranges, first = [], 0
    for bound, against in bounds:
        if bound > first:
            ranges.append(RangeProof(first, bound, against))
            first = bound
    return ChainProof(chain.name, tuple(ranges), tuple(words), stamped)


def witness_faults(
    ledger: str,
    reports: Sequence[ChainReport],
    roots: Mapping[str, Mapping[int, bytes]],
    trees: Iterable[CosignedTree],
) -> dict[str, Fault]:
    """Compare what witnesses cosigned with the checkpoints of a home; the first fault by chain.

    `roots` are those of the checkpoints that were verified, by chain and size. A witness cosigns
    nothing but checkpoints, so one of that size must be here.
    """
    known = {report.chain: report for report in reports}
    faults: dict[str, Fault] = {}
    for tree in sorted(trees, key=lambda each: each.head.size):
        name = tree.head.origin.removeprefix(f"pointsman/{ledger}/")
        if name == tree.head.origin or name in faults or tree.head.size == 0:
            continue
        size, report = tree.head.size, known.get(name)
        root = roots.get(name, {}).get(size)
        if root == tree.head.root:
            continue
        entries = 0 if report is None else report.entries
        if size > entries:
            message = f"the witness {tree.word.witness} saw {size} entries, and {entries} are here"
            faults[name] = Fault(name, entries, FaultCode.WITNESS_AHEAD, message)
        elif report is None or report.fault is None:
            message = (
                f"the witness {tree.word.witness} saw another history of entries 0 to {size - 1}"
            )
            faults[name] = Fault(name, 0, FaultCode.WITNESS_DIFFERS, message)
    return faults


class ShownWord(Struct, frozen=True):
    """The largest tree of a chain that a witness cosigned, and when."""

    witness: str
    size: int
    at: InstantText


class ShownStamp(Struct, frozen=True):
    """How many entries a time stamp covers, and when they existed at the latest."""

    size: int
    at: InstantText


class ShownProof(Struct, frozen=True):
    """The ranges of one chain, and against whom each is proven."""

    chain: str
    ranges: tuple[RangeProof, ...]
    witnesses: tuple[ShownWord, ...]
    stamped: ShownStamp | None


def proofs_value(proofs: Iterable[ChainProof]) -> tuple[ShownProof, ...]:
    """Return proofs as JSON shows them."""
    return tuple(
        ShownProof(
            each.chain,
            each.ranges,
            tuple(ShownWord(word.witness, word.size, instant_text(word.at))
                  for word in each.witnesses),
            None if each.stamped is None
            else ShownStamp(each.stamped[0], instant_text(each.stamped[1])),
        )
        for each in proofs
    )  # fmt: skip
