"""Make the receipt of a turn: its entries, the proofs that they are in the ledger, its inputs.

The same turn gives the same receipt, but for checkpoints that come meanwhile. Commitments to texts
and views of payloads rest on its own signature, all else on the hashes of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.audit.chain_notes import claimed_size
from pointsman.audit.receipts.disclosure import (
    entry_salt,
    minimal_view,
    redacted_view,
    text_commitment,
    text_salt,
)
from pointsman.audit.receipts.shapes import (
    RECEIPT_FORM,
    Disclosure,
    InclusionProof,
    ReceiptEntry,
    ReceiptText,
    TurnReceipt,
    signed_receipt,
)
from pointsman.audit.recorded_turns import check_recorded, entries_about, turn_named
from pointsman.errors import LedgerBroken, MissingSnapshot
from pointsman.kernel.checkpoint import read_checkpoint
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Chain, Entry
from pointsman.kernel.merkle import Frontier, append_leaves, inclusion_path, root
from pointsman.kernel.note import to_base64
from pointsman.kernel.record import DECISION, OUTCOME, read_recorded
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import HASH_SIZE
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:pointsman:receipt:1"

_BESIDE: Final = ("shadow", "judge")
"""Decisions about a turn that its answer does not rest on."""


def turn_receipt(home: Home, name: str, disclosure: Disclosure) -> bytes:
    """Return the signed receipt of a turn, found like the turn itself."""
    check_recorded(home)
    with told_errors(home.database), ExitStack() as stack:
        ledger = stack.enter_context(closing(home.reader()))
        texts = stack.enter_context(closing(ContentReader(home.content, home.content_key())))
        turn = turn_named(ledger, name)
        maker = _ReceiptMaker(home, ledger, disclosure)
        entries = tuple(maker.entry(each) for each in _answer_entries(ledger, turn))
        is_full = disclosure == "full"
        receipt = TurnReceipt(
            format="pointsman/receipt/1",
            disclosure=disclosure,
            ledger=home.identity.ledger,
            turn=turn.entry.ref,
            keys=home.identity.keys,
            rotations=home.identity.rotations,
            checkpoints=tuple(maker.checkpoints),
            entries=entries,
            bodies=dict(sorted(maker.bodies.items())) if is_full else {},
            texts=() if disclosure == "minimal" else tuple(maker.texts(texts)),
        )
    return signed_receipt(receipt, home.signing_key())


def _answer_entries(ledger: LedgerReader, turn: Stored) -> Iterator[Stored]:
    """Return the decisions an answer rests on, and how each was carried out, in order."""
    found = entries_about(ledger, turn)
    kept = [each for each in found if _is_decision(each.entry)]
    names = {each.entry.id for each in kept}
    return (
        each
        for each in found
        if each in kept or (each.entry.kind == OUTCOME and each.entry.ref in names)
    )


def _is_decision(entry: Entry) -> bool:
    return entry.kind.startswith(DECISION) and entry.kind.rpartition(".")[2] not in _BESIDE


class _ReceiptMaker:
    """Entries on their way into a receipt, with their facts, policies and seals."""

    def __init__(self, home: Home, ledger: LedgerReader, disclosure: Disclosure) -> None:
        self._ledger = ledger
        self._disclosure = disclosure
        self._key = home.content_key()
        self._chains = {
            number: _ChainProofs(home, ledger, number, name)
            for name, number in ledger.chains().items()
        }
        self.checkpoints: list[str] = []
        self.bodies: dict[str, str] = {}
        self._seals: dict[str, Sealed] = {}

    def entry(self, stored: Stored) -> ReceiptEntry:
        """Take up an entry: its proof, its payload or a view of it, its facts and its policy."""
        entry, chain = stored.entry, self._chains[stored.chain]
        starts = range(0, len(entry.attached), HASH_SIZE)
        made = ReceiptEntry(
            chain=chain.name,
            seq=entry.seq,
            at=entry.at,
            kind=entry.kind,
            id=entry.id,
            ref=entry.ref,
            prev=entry.prev.hex(),
            attached=tuple(entry.attached[at : at + HASH_SIZE].hex() for at in starts),
            hash=entry.hash.hex(),
            proof=self._proof(chain, entry.seq),
        )
        if entry.kind.startswith(DECISION):
            self._take_inputs(stored)
        salt = entry_salt(self._key, entry.hash)
        if self._disclosure == "full":
            return replace(made, payload=entry.payload.decode(), salt=salt.hex())
        if self._disclosure == "redacted":
            return replace(made, view=redacted_view(entry.kind, entry.payload, salt))
        return replace(made, view=minimal_view(entry.payload))

    def texts(self, kept: ContentReader) -> Iterator[ReceiptText]:
        """Commit to the texts that the facts hold the seals of."""
        for digest, seal in sorted(self._seals.items()):
            salt = text_salt(self._key, digest)
            try:
                commitment = text_commitment(salt, kept.text(seal))
            except MissingSnapshot as error:
                yield ReceiptText(digest, seal.chars, missing=error.message)
            else:
                yield ReceiptText(digest, seal.chars, salt=salt.hex(), commitment=commitment)

    def _proof(self, chain: _ChainProofs, seq: int) -> InclusionProof | None:
        found = chain.proof(seq)
        if found is None:
            return None
        note, path = found
        if note not in self.checkpoints:
            self.checkpoints.append(note)
        return InclusionProof(self.checkpoints.index(note), tuple(each.hex() for each in path))

    def _take_inputs(self, stored: Stored) -> None:
        _, record, _ = read_recorded(stored.entry.payload)
        facts = self._ledger.attachment(stored, record.facts_id)
        self.bodies[record.facts_id] = facts.decode()
        if record.policy_id not in self.bodies:
            self.bodies[record.policy_id] = self._ledger.snapshot(record.policy_id).body.decode()
        for seal in _seals(msgspec.json.decode(facts)):
            self._seals[seal.digest] = seal


def _seals(facts: Mapping[str, object]) -> Iterable[Sealed]:
    """Return the seals that stand in facts in the place of the message."""
    for name in ("message", "content"):
        seal = facts.get(name)
        if isinstance(seal, dict):
            yield msgspec.convert(seal, Sealed)


class _ChainProofs:
    """The proofs of one chain's entries: the first checkpoint that covers an entry holds it."""

    def __init__(self, home: Home, ledger: LedgerReader, number: int, name: str) -> None:
        self.name = name
        self._home, self._ledger, self._number = home, ledger, number
        self._chain = Chain(home.identity.ledger, name)
        self._notes: list[str] | None = None

    def proof(self, seq: int) -> tuple[str, list[bytes]] | None:
        """Return a checkpoint and the path to its root; None while none covers the entry."""
        notes = self._known_notes()
        at = next((n for n, each in enumerate(notes) if claimed_size(each) > seq), None)
        if at is None:
            return None
        covering = read_checkpoint(self._chain, notes[at], self._home.keys)
        before = Frontier()
        if at:
            before = read_checkpoint(self._chain, notes[at - 1], self._home.keys).frontier
        rows = self._ledger.entries_in(self._number, before.size, covering.size)
        since = [each.hash for each in rows]
        if root(append_leaves(before, since)) != covering.root:
            raise LedgerBroken(
                "its entries are not those that its checkpoint signs",
                where=self.name,
                hint="run `pointsman verify`",
            )
        return notes[at], inclusion_path(seq, before, since)

    def _known_notes(self) -> list[str]:
        if self._notes is None:
            self._notes = self._home.notes.of(self._chain).texts()[0]
        return self._notes


class _Subject(Struct, frozen=True):
    name: str
    digest: dict[str, str]


class _Statement(Struct, frozen=True):
    type_: str = msgspec.field(name="_type")
    subject: tuple[_Subject, ...]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: Raw


class _Signature(Struct, frozen=True):
    keyid: str
    sig: str


class _Envelope(Struct, frozen=True):
    payload: str
    payload_type: str = msgspec.field(name="payloadType")
    signatures: tuple[_Signature, ...]


def receipt_envelope(receipt: bytes, key: SigningKey) -> bytes:
    """Wrap a receipt as an in-toto statement in DSSE: byte for byte, signed by the same key.

    The subject is the entry of its first decision, by its hash in the ledger.
    """
    told = RECEIPT_FORM.decode(receipt)
    first = told.entries[0]
    subject = _Subject(f"pointsman/{told.ledger}/{first.chain}/{first.seq}", {"sha256": first.hash})
    statement = _Statement(STATEMENT_TYPE, (subject,), PREDICATE_TYPE, Raw(receipt))
    payload = msgspec.json.encode(statement)
    signature = _Signature(key.id, to_base64(key.sign(pre_authentication(PAYLOAD_TYPE, payload))))
    return msgspec.json.encode(_Envelope(to_base64(payload), PAYLOAD_TYPE, (signature,)))


def pre_authentication(kind: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: no other signature of ours begins like this."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
