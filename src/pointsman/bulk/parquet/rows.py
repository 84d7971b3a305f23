"""Entries of the ledger as rows of the tables: read leniently, for nothing is proved from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Raw, Struct

from pointsman.bulk.parquet.tables import TableName
from pointsman.bulk.rescoring import TurnScore, scores_in
from pointsman.errors import ReplayError
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Entry
from pointsman.kernel.number import ONE, Billionths
from pointsman.kernel.record import DECISION, OUTCOME, Aside
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM

Cell = str | int | bool | Decimal | list[dict[str, str]] | None
Row = tuple[Cell, ...]
Texts = Callable[[Sealed], str]

NINE: Final = Decimal(1).scaleb(-9)


class _Attempt(Struct):
    rule_name: str
    candidate_model: str = ""
    validation_failure: str = ""


class _Slot(Struct):
    policy: str
    verdict: str
    candidate_model: str | None = None
    rule_name: str | None = None
    rule_attempts: tuple[_Attempt, ...] = ()
    validation_failure: str | None = None


class _Trace(Struct):
    chain: tuple[_Slot, ...] = ()


class _Outcome(Struct):
    """What the outcomes of all rooms may say of a choice."""

    chosen_model: str = ""
    winner_index: int = -1
    route: str = ""
    rule_id: str = ""
    gate: str = ""
    selected_agent: str | None = None
    selected_labels: tuple[str, ...] = ()


class _Decision(Struct):
    kind: str
    decision_version: int
    policy_id: str
    facts_id: str
    outcome: _Outcome
    trace: Raw


class _Recorded(Struct):
    decision: _Decision
    aside: Aside


class _Placed(Struct):
    gate: str = ""
    rule_id: str = ""


class _Facts(Struct):
    message: Sealed | str | None = None
    workspace_path: str | None = None
    is_worker: bool = False
    placement: _Placed | None = None


class _Spent(Struct):
    key_id: str
    session_id: str
    workspace: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_microusd: int | None
    price_version: str
    is_estimated: bool
    at: int


class _End(Struct):
    model: str
    location: str
    number: int
    is_stream: bool
    status: int
    error_class: str
    attempts: int
    stop_reason: str
    elapsed_us: int
    first_byte_us: int
    spent: _Spent | None


class _Ended(Struct):
    status: str
    detail: Raw


_RECORDED: Final = msgspec.json.Decoder(_Recorded)
_TRACE: Final = msgspec.json.Decoder(_Trace)
_FACTS: Final = msgspec.json.Decoder(_Facts)
_ENDED: Final = msgspec.json.Decoder(_Ended)
_END: Final = msgspec.json.Decoder(_End)
_TURN: Final = "turn"
_NO_CHARGE: Final = (None,) * 11


class RowReader:
    """Turns the entries of one chain into rows; `texts` reads messages where they are wanted."""

    def __init__(self, chain: str, texts: Texts | None = None) -> None:
        self._chain = chain
        self._texts = texts

    def rows(self, entry: Entry, facts: bytes | None) -> Iterator[tuple[TableName, Row]]:
        """Yield the rows of an entry; one that cannot be read is for `verify` to name."""
        try:
            if entry.kind.startswith(DECISION):
                yield "decisions", self._decision(entry, facts)
            elif entry.kind == OUTCOME:
                yield from (("calls", row) for row in self._call(entry))
            else:
                yield from (("verdicts", row) for row in self._verdict(entry))
        except msgspec.MsgspecError:
            return

    def _place(self, entry: Entry) -> Row:
        return entry.at, self._chain, entry.seq

    def _decision(self, entry: Entry, body: bytes | None) -> Row:
        recorded = _RECORDED.decode(entry.payload)
        decision, aside = recorded.decision, recorded.aside
        is_turn = decision.kind == _TURN
        slots = _TRACE.decode(bytes(decision.trace)).chain if is_turn else ()
        facts = _FACTS.decode(body) if is_turn and body is not None else _Facts()
        seal = facts.message if isinstance(facts.message, Sealed) else None
        placed = facts.placement or _Placed(decision.outcome.gate, decision.outcome.rule_id)
        return (
            *self._place(entry),
            entry.id,
            decision.kind,
            entry.kind.removeprefix(DECISION + decision.kind).removeprefix("."),
            entry.ref,
            aside.session_id,
            aside.is_preview,
            _choice(decision.outcome),
            *_winner(decision.outcome, slots),
            _rejections(slots),
            facts.workspace_path or "",
            facts.is_worker,
            placed.gate,
            placed.rule_id,
            seal.digest if seal else "",
            seal.chars if seal else 0,
            aside.elapsed_us,
            decision.decision_version,
            decision.policy_id,
            decision.facts_id,
            aside.product_version,
            self._text(seal),
        )

    def _text(self, seal: Sealed | None) -> str | None:
        if self._texts is None or seal is None:
            return None
        try:
            return self._texts(seal).encode(errors="replace").decode()
        except ReplayError:
            return None

    def _call(self, entry: Entry) -> Iterator[Row]:
        ended = _ENDED.decode(entry.payload)
        try:
            end = _END.decode(bytes(ended.detail))
        except msgspec.ValidationError:
            # The outcome of something else than a call of a model.
            return
        told = (
            end.model, end.location, end.number, end.is_stream, end.status, end.error_class,
            end.attempts, end.stop_reason, end.elapsed_us, end.first_byte_us,
        )  # fmt: skip
        yield (
            *self._place(entry),
            entry.id,
            entry.ref,
            ended.status,
            *told,
            *_charge_cells(end.spent),
        )

    def _verdict(self, entry: Entry) -> Iterator[Row]:
        for each in scores_in(self._chain, entry):
            source, key = _source(entry, each)
            shown = (_fraction(each.score), _fraction(each.confidence))
            yield *self._place(entry), entry.id, each.turn_id, source, *shown, key


def _source(entry: Entry, score: TurnScore) -> tuple[str, str]:
    if entry.kind == FEEDBACK:
        return "given", FEEDBACK_FORM.read(entry.payload).key_id
    return "said" if score.is_said else "shown", ""


def _fraction(value: Billionths) -> Decimal:
    return (Decimal(value) / ONE).quantize(NINE)


def _choice(outcome: _Outcome) -> str:
    chosen = outcome.chosen_model or outcome.route or outcome.selected_agent
    return chosen or ",".join(outcome.selected_labels)


def _winner(outcome: _Outcome, slots: tuple[_Slot, ...]) -> tuple[str, str]:
    if 0 <= outcome.winner_index < len(slots):
        winner = slots[outcome.winner_index]
        return winner.policy, winner.rule_name or ""
    return "", outcome.rule_id


def _rejections(slots: tuple[_Slot, ...]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for slot in slots:
        found += [
            _rejection(slot.policy, each.rule_name, each.candidate_model, each.validation_failure)
            for each in slot.rule_attempts
        ]
        if slot.verdict == "rejected" and not slot.rule_attempts:
            model, failure = slot.candidate_model or "", slot.validation_failure or ""
            found.append(_rejection(slot.policy, slot.rule_name or "", model, failure))
    return found


def _rejection(slot: str, rule: str, model: str, failure: str) -> dict[str, str]:
    return {"slot": slot, "rule": rule, "model": model, "failure": failure}


def _charge_cells(spent: _Spent | None) -> Row:
    if spent is None:
        return False, *_NO_CHARGE
    return (
        True,
        spent.at,
        spent.key_id,
        spent.session_id,
        spent.workspace,
        spent.input_tokens,
        spent.output_tokens,
        spent.cached_input_tokens,
        spent.cache_creation_input_tokens,
        spent.cost_microusd,
        spent.price_version,
        spent.is_estimated,
    )
