"""The page of compared outcomes says what the bench wrote down last, and nothing was left out."""

import importlib.util
import json
from pathlib import Path

import pytest
from tests.gateway.outcome_cells import FIRST, SECOND_MODEL, cases, wanted

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
FOUND = json.loads((BENCH / "results" / "outcomes.json").read_text(encoding="utf-8"))
OURS = FOUND["systems"]["Pointsman"]["cells"]
WAYS = {"named": "named", "named, list set": "named", "list": "default"}
SERVES = {"first": FIRST, "second": SECOND_MODEL, "none": "none"}


def _page_writer():
    spec = importlib.util.spec_from_file_location("outcomes_page", BENCH / "outcomes_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name(cell):
    return f"{cell['cause']}, {cell['way']}, {'stream' if cell['stream'] else 'whole'}"


def test_the_page_is_the_one_the_bench_would_write():
    text = (ROOT / "docs" / "reference" / "outcomes-compared.md").read_text(encoding="utf-8")
    assert text == _page_writer().page(FOUND)


def test_every_gateway_was_asked_in_every_cell_or_its_absence_has_a_reason():
    assert {*FOUND["systems"], *FOUND["skipped"]} == {"Pointsman", "LiteLLM", "Portkey"}
    assert all(FOUND["skipped"].values())
    whole = [
        f"{cause}, {way}, {mode}"
        for cause in FOUND["conditions"]["causes"]
        for way in WAYS
        for mode in ("whole", "stream")
        if cases()[cause].get("only", mode) == mode
    ]
    for system in FOUND["systems"].values():
        assert [_name(cell) for cell in system["cells"]] == whole


@pytest.mark.parametrize("cell", OURS, ids=_name)
def test_ours_is_the_outcome_that_the_table_wants_today(cell):
    want = wanted(cases()[cell["cause"]], WAYS[cell["way"]])
    assert SERVES[cell["served"]] == want["serves"]
    assert cell["status"] == want["status"]
    assert ("estimate" if cell["is_estimate"] else cell["microusd"]) == want["charged"]


def test_the_causes_are_those_of_the_table():
    causes = FOUND["conditions"]["causes"]
    assert causes == {name: cases()[name]["note"] for name in causes}


def _cell(**changes):
    plain = {
        "cause": "05_provider_500", "way": "named, list set", "stream": False, "status": 200,
        "served": "second", "replaced": True, "body_models": ["second"], "headers": {"a": "2"},
        "error": None, "calls": {"first": 3, "second": 1}, "microusd": 38.0, "is_estimate": False,
        "paid_microusd": 38, "ending": "complete", "seconds": 1.25,
    }  # fmt: skip
    return {**plain, **changes}


def _system(*cells):
    well = _cell(cause="01_nothing", served="first", replaced=False, body_models=["first"],
                 headers={"a": "1"})  # fmt: skip
    return {"version": "1", "cells": [well, *cells]}


def test_an_answer_tells_by_what_differs_from_the_one_with_nothing_wrong():
    told_by = _page_writer().told_by
    assert told_by(_cell(), _system()) == ["body `second`", "`a: 2`"]
    assert told_by(_cell(body_models=["first"], headers={"a": "1"}), _system()) == []
    assert told_by(_cell(headers={"x-litellm-response-cost": "9"}), _system()) == ["body `second`"]


@pytest.mark.parametrize(
    ("changes", "row", "figure"),
    [
        ({}, 1, "1"),
        ({"replaced": False}, 1, "0"),
        ({"body_models": ["first"]}, 2, "0"),
        ({"headers": {"a": "1"}}, 3, "0"),
        ({"calls": {"first": 1, "second": 1}}, 5, "0"),
        ({"calls": {"first": None, "second": 1}}, 5, "0"),
        ({}, 5, "1"),
        ({"served": "none"}, 6, "1"),
        ({"served": "none", "error": "gone"}, 6, "0"),
        ({"cause": "10_cut_stream", "served": "first"}, 6, "1"),
        ({"cause": "10_cut_stream", "served": "first, then second"}, 6, "0"),
        ({"cause": "10_cut_stream", "served": "first, then second"}, 7, "1"),
        ({}, 7, "0"),
        ({}, 8, "0 of 1"),
        ({"microusd": 19.0}, 8, "1 of 1"),
        ({"microusd": None}, 8, "no own count"),
        ({"seconds": 2.0}, 9, "2.0"),
    ],
)
def test_the_counts_are_those_of_the_cells(changes, row, figure):
    whole = {"systems": {"x": _system(_cell(**changes))}}
    lines = _page_writer().summary(whole).splitlines()[2:]
    assert lines[row].split(" | ")[-1].rstrip(" |") == figure
