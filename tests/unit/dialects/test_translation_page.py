"""The page about translation lists every loss, every refusal and every number of the code."""

import ast
from pathlib import Path

import pytest

from pointsman.providers.dialects import generation, stops
from pointsman.providers.dialects.loss import CannotSay, CannotSayCode, Loss, refuse

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "pointsman" / "providers" / "dialects"
PAGE = (ROOT / "docs" / "reference" / "translation.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("loss", Loss)
def test_every_loss_stands_in_the_page(loss):
    assert f"| `{loss}` | {loss.meaning} |" in PAGE


@pytest.mark.parametrize("refusal", CannotSayCode)
def test_every_refusal_stands_in_the_page(refusal):
    assert f"| `{refusal}` | {refusal.meaning} |" in PAGE
    assert refusal.startswith("no_")
    assert refusal.endswith("_support")


def test_the_numbers_of_the_page_are_those_of_the_code():
    for effort, budget in generation.BUDGETS.items():
        assert f"| `{effort}` | {budget:,} |" in PAGE
    for reason, word in stops.TO_CHAT.items():
        assert f"| `{reason}` | `{word}` | `{stops.TO_MESSAGES[reason]}` |" in PAGE


def used(name):
    """Give the members of an enum that the code names."""
    return {
        node.attr
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def test_every_refusal_is_used():
    assert used("CannotSayCode") >= {each.name for each in CannotSayCode}


def test_every_loss_is_used_by_its_name_or_as_a_hint():
    texts = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("request_in.py"))
    unused = {each for each in Loss if each.name not in used("Loss")}
    assert {each for each in unused if f'"{each}"' not in texts} == set()


def test_a_refusal_survives_the_way_between_processes():
    import pickle

    error = refuse(CannotSayCode.AUDIO, "audio")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, CannotSay)
    assert (str(copy), copy.refusal) == (str(error), CannotSayCode.AUDIO)
