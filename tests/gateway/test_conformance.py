"""The conformance table: the same facts give the same decision, whichever way a turn comes."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.gateway.conformance import SURFACES, cases, is_as_wanted, world

from pointsman.turns.chain import validation
from pointsman.turns.rules.condition import When
from pointsman.turns.trace import ValidationFailure

CASES = cases()
PREDICATES = {each.encode_name for each in msgspec.structs.fields(When)}
WITHOUT_PLACEMENT = "{} is in the cloud, this turn stays local"
"""Only facts without a placement come to this reason, and every surface decides a placement."""


@pytest.mark.parametrize("name", CASES)
def test_every_surface_decides_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    cannot, able, wrong = case.get("cannot", {}), {*SURFACES}, []
    with world(case, tmp_path / "home") as found:
        for turn in case["turns"]:
            decisions = dict(found.decisions(turn))
            assert tuple(decisions) == SURFACES
            agreed = {each for each in SURFACES if is_as_wanted(turn, decisions[each])}
            able &= agreed
            wrong += [
                f"{surface}, {turn['sends']}: {decision} is not {turn['want']}"
                for surface, decision in decisions.items()
                if surface not in agreed and surface not in cannot
            ]
            # Slots that had nothing to say are not in the files: they are compared here.
            chains = {tuple(decisions[surface].chain) for surface in agreed}
            wrong += [f"{turn['sends']}: {chains}"] if len(chains) > 1 else []
    assert not wrong, "\n".join(wrong)
    assert able == {*SURFACES} - {*cannot}, "a surface can what `cannot` denies"


@pytest.mark.parametrize("name", CASES)
def test_a_surface_that_cannot_carry_a_fact_has_its_reason(name: str) -> None:
    cannot = CASES[name].get("cannot", {})
    assert {*cannot} < {*SURFACES}
    assert all(len(reason.split()) > 3 for reason in cannot.values())


def test_every_predicate_and_every_veto_has_a_case() -> None:
    covered = {case["covers"] for case in CASES.values()}
    assert covered == PREDICATES | {*get_args(ValidationFailure)}


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_a_case_of_a_predicate_asks_nothing_else_and_has_both_answers(name: str) -> None:
    (case,) = [case for case in CASES.values() if case["covers"] == name]
    assert [*case["when"]] == [name]
    assert {turn["want"]["winner"] for turn in case["turns"]} == {"rule", "global_default"}


def test_every_reason_of_a_veto_has_a_case() -> None:
    turns: list[dict[str, Any]] = [turn for case in CASES.values() for turn in case["turns"]]
    told = [turn["want"]["because"] for turn in turns if "because" in turn["want"]]
    reasons = _reasons()
    # A reason that is all names fits every text: each text counts for the longest that fits.
    by_length = sorted(reasons, key=len, reverse=True)
    covered = {next(each for each in by_length if _fits(each, text)) for text in told}
    assert covered == reasons - {WITHOUT_PLACEMENT}
    assert WITHOUT_PLACEMENT in reasons


def _reasons() -> set[str]:
    """Return every text that the vetoes can say, with `{}` for the names and numbers in it."""
    tree = [*ast.walk(ast.parse(inspect.getsource(validation)))]
    made = [each for each in tree if isinstance(each, ast.Call) and _is_named(each, "Rejection")]
    plain = [each.args[1] for each in made if isinstance(each.args[1], ast.Constant)]
    pieced = [each for each in tree if isinstance(each, ast.JoinedStr)]
    return {
        "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each)
        for each in [*([text] for text in plain), *(text.values for text in pieced)]
    }


def _is_named(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == name


def _fits(reason: str, text: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, reason.split("{}"))), text) is not None
