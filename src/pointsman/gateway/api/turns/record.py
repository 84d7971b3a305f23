"""One turn with all its record: facts, policy, linked entries, and its replay."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from pointsman.audit.recorded_turns import entries_about, turn_named
from pointsman.audit.turn_shapes import DifferenceRow
from pointsman.errors import MissingSnapshot, NotFound, PointsmanError
from pointsman.gateway.api.turns.shapes import (
    LinkedEntry,
    MessageShown,
    RecordAnswer,
    ReplayedAnswer,
    TurnReplayed,
)
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import instant_text
from pointsman.kernel.record import DECISION, read_recorded
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored
from pointsman.turns.facts import FACTS_FORM

if TYPE_CHECKING:
    from pointsman.audit.replay import HomeReplayer

MOST_LINKED = 500
_NOT_SHOWN = frozenset({"snapshot"})


def record_of(home: Home, name: str, *, is_open: bool) -> RecordAnswer:
    """Return the whole record of a turn; its text only where the caller may read it."""
    _check_begun(home)
    with told_errors(home.database), closing(home.reader()) as ledger:
        stored = turn_named(ledger, name)
        entry = stored.entry
        chains = {number: chain for chain, number in ledger.chains().items()}
        _, record, aside = read_recorded(entry.payload)
        facts = next(iter(ledger.attachments(stored)), None)
        policy, told = _policy(ledger, record.policy_id)
        return RecordAnswer(
            turn_id=entry.ref,
            decision_id=entry.id,
            session_id=aside.session_id,
            trace_id=aside.trace_id,
            is_preview=aside.is_preview,
            product_version=aside.product_version,
            at=instant_text(entry.at),
            chain=chains[stored.chain],
            seq=entry.seq,
            hash=entry.hash.hex(),
            message=_message(home, facts, is_open=is_open),
            facts=None if facts is None else Raw(facts),
            policy=policy,
            policy_told=told,
            linked=tuple(_linked_entries(ledger, stored, chains)),
        )


def replay_turn(home: Home, name: str) -> ReplayedAnswer:
    """Re-run every decision about a turn."""
    from pointsman.audit.replay import HomeReplayer  # noqa: PLC0415 - it loads every room

    _check_begun(home)
    with told_errors(home.database), closing(HomeReplayer(home)) as replayer:
        ledger = replayer.ledger
        turn = turn_named(ledger, name)
        about = [turn, *(each for each in ledger.with_ref(turn.entry.ref) if each != turn)]
        found = [each for each in about if each.entry.kind.startswith(DECISION)]
        return ReplayedAnswer(tuple(_again(replayer, each) for each in found))


def _again(replayer: HomeReplayer, stored: Stored) -> TurnReplayed:
    entry = stored.entry
    facts = next(iter(replayer.ledger.attachments(stored)), None)
    result = replayer.replay(stored.chain, entry, facts)
    recorded, _, _ = read_recorded(entry.payload)
    return TurnReplayed(
        decision_id=entry.id,
        kind=entry.kind.removeprefix(DECISION),
        verdict=result.verdict.value,
        code=result.code,
        reason=result.reason,
        differences=tuple(
            DifferenceRow(each.path, each.recorded, each.found) for each in result.differences
        ),
        recorded_bytes=len(recorded),
        recorded_sha256=hashlib.sha256(recorded).hexdigest(),
    )


def _check_begun(home: Home) -> None:
    if not home.database.exists():
        raise NotFound("nothing is recorded yet")


def _policy(ledger: LedgerReader, name: str) -> tuple[Raw | None, str]:
    try:
        return Raw(ledger.snapshot(name).body), ""
    except PointsmanError as error:
        return None, error.message


def _message(home: Home, facts: bytes | None, *, is_open: bool) -> MessageShown:
    seal = None if facts is None else FACTS_FORM.read(facts).message
    if not isinstance(seal, Sealed):
        return MessageShown("", 0, None, "its facts are not stored")
    if not is_open:
        told = "log in as an admin to read it"
        return MessageShown(seal.digest, seal.chars, None, told)
    with closing(ContentReader(home.content, home.content_key())) as texts:
        try:
            return MessageShown(seal.digest, seal.chars, texts.displayed_text(seal), "")
        except MissingSnapshot as error:
            return MessageShown(seal.digest, seal.chars, None, error.message)


def _linked_entries(
    ledger: LedgerReader, turn: Stored, chains: Mapping[int, str]
) -> Iterator[LinkedEntry]:
    """Return the entries about a turn and about each decision on it, in order."""
    about = (each for each in entries_about(ledger, turn) if each != turn)
    shown = [each for each in about if each.entry.kind not in _NOT_SHOWN]
    for each in shown[:MOST_LINKED]:
        entry = each.entry
        yield LinkedEntry(
            entry.id,
            entry.kind,
            instant_text(entry.at),
            chains[each.chain],
            entry.seq,
            entry.hash.hex(),
            _detail(entry.payload),
        )


def _detail(payload: bytes) -> Raw:
    try:
        msgspec.json.decode(payload, type=dict)
    except msgspec.MsgspecError:
        return Raw(b"{}")
    return Raw(payload)
