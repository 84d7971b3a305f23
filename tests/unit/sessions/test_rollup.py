"""What a session cost: the tree of the document, and sums that are sums."""

from __future__ import annotations

import pytest

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.providers.messages import Text
from pointsman.sessions.feedback import RATING_VERDICTS, SIGNAL_VERDICTS, signal_of
from pointsman.sessions.message import MessageUsage, Metadata, SessionMessage
from pointsman.sessions.rollup import WorkerMessages, rollup, rollup_text

OPUS, HAIKU = "anthropic:claude-opus-4-7", "anthropic:claude-haiku-4-5"
MINI = "openai:gpt-5-mini"


def spent(model: str, cost: int, turn: str) -> SessionMessage:
    usage = MessageUsage(1, 1, 0, 0, microusd_text(MicroUsd(cost)), "v", 1)
    metadata = Metadata("complete", model, model.partition(":")[0], None, usage)
    return SessionMessage("m", "s", turn, "assistant", (Text("x"),), metadata, Instant(0))


def worked(name: str, model: str, cost: int, turns: int) -> WorkerMessages:
    each = tuple(spent(model, cost // turns, f"t{number}") for number in range(turns))
    return WorkerMessages(f"w_{name}", name, each)


@pytest.mark.req(234, 270, 291)
def test_the_tree_of_the_document() -> None:
    planner = [spent(OPUS, 17_500, f"t{number}") for number in range(12)]
    workers = [
        worked("tu_01HZ_a", HAIKU, 20_000, 1),
        worked("tu_01HZ_b", HAIKU, 40_000, 2),
        worked("tu_01HZ_c", MINI, 30_000, 1),
        worked("tu_01HZ_d", HAIKU, 40_000, 2),
    ]
    found = rollup("sess_42", planner, workers)
    assert rollup_text(found).splitlines() == [
        "Session sess_42 — total $0.34",
        "├─ planner (anthropic:claude-opus-4-7): $0.21, 12 turns",
        "└─ workers: $0.13, 4 delegations",
        "   ├─ tu_01HZ_a → anthropic:claude-haiku-4-5: $0.02, 1 turn",
        "   ├─ tu_01HZ_b → anthropic:claude-haiku-4-5: $0.04, 2 turns",
        "   ├─ tu_01HZ_c → openai:gpt-5-mini: $0.03, 1 turn",
        "   └─ tu_01HZ_d → anthropic:claude-haiku-4-5: $0.04, 2 turns",
    ]


def test_several_calls_of_one_turn_are_one_turn_and_models_are_told_apart() -> None:
    messages = [spent(OPUS, 1, "t1"), spent(OPUS, 2, "t1"), spent(HAIKU, 4, "t2")]
    found = rollup("s", messages, [])
    assert [(each.model, each.cost_microusd, each.turns) for each in found.planner] == [
        (OPUS, 3, 1),
        (HAIKU, 4, 1),
    ]
    assert found.total_microusd == 7
    assert rollup_text(found).splitlines()[1].startswith("└─ planner")


def test_a_session_without_an_answer_costs_nothing() -> None:
    assert rollup_text(rollup("s", [], [])).splitlines() == [
        "Session s — total $0.00",
        "└─ planner (no model yet): $0.00, 0 turns",
    ]


def test_asking_the_same_again_is_a_retry_and_asking_nearly_the_same_an_edit() -> None:
    first = "please fix the bug in the parser module"
    assert signal_of(first, f" {first} ") == "retry"
    assert signal_of(first, "please fix the bugs in the parser module") == "edit_followup"
    assert signal_of(first, "what is the weather like in Bern?") is None
    assert signal_of("", first) is None


def test_what_is_shown_is_less_sure_than_what_is_said() -> None:
    assert max(each.confidence for each in SIGNAL_VERDICTS.values()) < min(
        each.confidence for each in RATING_VERDICTS.values()
    )
