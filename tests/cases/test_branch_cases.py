"""Behaviour of the branches room, told in YAML files."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.absent_texts import no_texts

from pointsman.branches.compiled import compile_policy, plain
from pointsman.branches.decide import DECIDER, decide
from pointsman.branches.facts import FACTS_FORM, read_facts
from pointsman.branches.file.decisions_file import DecisionsFile
from pointsman.branches.policy import POLICY_FORM, branch_policy, read_document, read_policy
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM, BranchOutcome, BranchTrace
from pointsman.errors import DocumentError
from pointsman.kernel.document import Document
from pointsman.kernel.yaml_text import read_yaml

FOLDER = Path(__file__).parent / "branches"


def _cases(*names: str) -> list[Any]:
    found = []
    for name in names:
        value: Any = read_yaml((FOLDER / name).read_bytes(), name).value
        shared = {} if isinstance(value, list) else value
        for each in value if isinstance(value, list) else value["cases"]:
            case = {key: shared[key] for key in ("texts", "shared") if key in shared} | each
            marks = pytest.mark.req(*case.get("req", []))
            found.append(pytest.param(case, id=f"{name}: {case['note']}", marks=marks))
    return found


def _file(case: dict[str, Any]) -> DecisionsFile:
    if "use" in case:
        return read_policy(case["texts"][case["use"]].encode(), "d.yaml")
    decision = {"id": "d"} | case["shared"] | case["decision"]
    document = Document("d.yaml", {"decision": decision}, {}, {("decision",): (1, 1)})
    return read_document(document)


def _said(outcome: BranchOutcome, trace: BranchTrace) -> dict[str, Any]:
    """Give what a decision says under the names a case may ask for."""
    placed = outcome.weighted
    fields = {name: getattr(outcome, name) for name in BranchOutcome.__struct_fields__}
    return fields | {
        "weighted": msgspec.to_builtins(placed),
        "input_value": plain(outcome.input_value),
        "output": plain(outcome.output),
        "results": [each.result for each in trace.cases],
        "evaluated": [each.evaluated for each in trace.cases],
        "missing": [list(each.missing) for each in trace.cases],
        "reasons": [each.reason for each in trace.cases],
        "input_missing": list(trace.input_missing),
        "weighted_slot": placed and placed.slot,
        "weighted_total": placed and placed.total_weight,
        "weighted_salt": placed and placed.salt,
        "checks": [[c.check_name, c.passed, c.message] for c in outcome.guardrails],
        **{
            name: list(getattr(outcome, name))
            for name in (
                "selected_targets", "selected_labels", "chosen_targets", "approval_required"
            )
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "case",
    _cases("document_examples.yaml", "hit_policies.yaml", "weighted.yaml", "guardrails.yaml"),
)
def test_branches_are_decided_as_told(case: dict[str, Any]) -> None:
    policy = branch_policy([_file(case)])
    facts = read_facts(policy.decisions[0].id, case["context"], case.get("approved", ()))
    outcome, trace = decide(compile_policy(policy), facts)
    said = _said(outcome, trace)
    assert {name: said[name] for name in case["want"]} == case["want"]
    again = DECIDER.under(POLICY_FORM.form.encode(policy))
    recorded = FACTS_FORM.encode(facts.to_recorded())
    assert again(recorded, no_texts) == (OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


@pytest.mark.parametrize("case", _cases("files_refused.yaml"))
def test_files_are_refused_as_told(case: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as caught:
        read_policy(case["text"].encode(), "d.yaml")
    assert [str(problem) for problem in caught.value.problems] == case["problems"]
