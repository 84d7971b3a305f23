"""The why-screen of a branch fits a terminal and tells what matters."""

from decimal import Decimal
from typing import Any

import pytest

from pointsman.branches.compiled import CompiledDecisions
from pointsman.branches.decide import decide
from pointsman.branches.explain import HEIGHT, ShownBranch, to_screen
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import branch_policy, read_document
from pointsman.kernel.columns import WIDTH
from pointsman.kernel.document import Document
from pointsman.kernel.instant import Instant


def screen(context: dict[str, Any], **fields: Any) -> str:
    given = {"id": "gate", "type": "switch", "default": {"target": "otherwise"}} | fields
    document = Document("d.yaml", {"decision": given}, {}, {("decision",): (1, 1)})
    policy = branch_policy([read_document(document)])
    outcome, trace = decide(CompiledDecisions(policy), read_facts(given["id"], context))
    shown = ShownBranch("01J", Instant(0), "sha256:p", "sha256:f", 1, "Gate", outcome, trace)
    text = to_screen(shown)
    lines = text.split("\n")
    assert len(lines) <= HEIGHT
    assert all(len(line) <= WIDTH for line in lines)
    return text


CASES = [
    {"condition": "input.score >= 0.8", "target": "deploy", "label": "Pass"},
    {"condition": "input.tries > 2", "target": "human", "label": "Retried"},
    {"condition": "true", "target": "rework", "label": "Rest"},
]


def test_it_tells_the_choice_the_values_and_every_case() -> None:
    text = screen({"score": Decimal("0.75")}, cases=CASES)
    assert (
        text
        == """\
Decision gate · Gate · 1970-01-01T00:00:00.000000Z
Chose: rework   (Rest: matched)
  input.score = 0.75
  input.tries = missing

Cases:
  [1] false         Pass  input.score >= 0.8
  [2] unknown       Retried  input.tries > 2
      unknown: missing `input.tries`
> [3] true          Rest  true

decision 01J · version 1
policy   sha256:p
facts    sha256:f"""
    )


def test_a_long_table_shows_what_fired_and_how_much_is_left() -> None:
    cases = [{"condition": f"input.n == {n}", "target": f"t{n}", "label": "Ä 漢字 " * 30}
             for n in range(200)]  # fmt: skip
    text = screen({"n": 150}, type="rule_table", rules=cases)
    assert "> [151] true" in text
    assert "more lines in --json" in text
    rules = [{"condition": "input.x == 1", "target": "t"}] * 60
    assert "more lines in --json" in screen({}, type="rule_table", rules=rules)


def test_it_tells_what_a_guardrail_did() -> None:
    rail = {"type": "no_disabled_targets", "disabled_stages": ["rework"],
            "escalation_target": "human"}  # fmt: skip
    text = screen({}, cases=CASES, guardrails=[rail])
    assert "Chose: human   (Rest: matched)" in text
    assert "Blocked: would have gone to rework" in text
    assert "  no_disabled_targets: target `rework` is disabled: goes to `human`" in text
    asks = {"type": "requires_approval", "targets": ["rework"]}
    assert "Waits for approval of rework" in screen({}, cases=CASES, guardrails=[asks])
    asks["action_on_fail"], asks["escalation_target"] = "escalate", "boss"
    assert "Escalated: would have gone to rework" in screen({}, cases=CASES, guardrails=[asks])


def test_it_tells_the_slot_of_a_unit() -> None:
    cases = [{"target": "a", "weight": 1, "label": "A"}, {"target": "b", "weight": 0}]
    text = screen({"id": "u"}, type="weighted", input="id", cases=cases)
    assert "Slot 0 of 1 by wb1, salt gate" in text
    assert "> [1] true          A  weight 1" in text


@pytest.mark.parametrize(("given", "said"), [("a.b", "Input: missing a.b"),
                                             ("1 / 0", "Input: a division by zero")])  # fmt: skip
def test_it_tells_why_there_is_no_input(given: str, said: str) -> None:
    assert said in screen({}, input=given, cases=CASES)


def test_many_values_are_cut_and_lists_go_by_their_id() -> None:
    cases = [{"condition": f"input.v{n} contains 'x'", "target": "t"} for n in range(6)]
    text = screen({f"v{n}": ["a"] for n in range(6)}, cases=cases)
    assert "  input.v0 = sha256:" in text
    assert "… 2 more values in --json" in text
