"""The page about speed says what the bench wrote down last, and nothing was left out."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
FOUND = json.loads((BENCH / "results" / "gateway.json").read_text(encoding="utf-8"))
PEERS = {"LiteLLM", "Portkey", "TensorZero", "vllm-router", "sglang-router"}


def _page_writer():
    spec = importlib.util.spec_from_file_location("gateway_page", BENCH / "gateway_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_about_speed_is_the_one_the_bench_would_write():
    text = (ROOT / "docs" / "reference" / "speed.md").read_text(encoding="utf-8")
    assert text == _page_writer().page(FOUND)


def test_every_peer_was_measured_or_its_absence_has_a_reason():
    assert {*FOUND["systems"], *FOUND["skipped"]} == {"direct", "Pointsman", *PEERS}
    assert all(FOUND["skipped"].values())


def test_ours_answered_every_request_and_every_decision_is_in_an_intact_ledger():
    ours = FOUND["systems"]["Pointsman"]
    assert sum(case["errors"] for case in ours["cases"].values()) == 0
    assert len(ours["checked"]) == FOUND["conditions"]["rounds"]
    for each in ours["checked"]:
        assert each["is_intact"]
        assert each["decisions"] >= each["answers"] > 0


def test_the_conditions_of_the_run_are_told():
    told = FOUND["conditions"]
    assert told["cpu"]
    assert told["kernel"]
    assert told["date"]
    assert told["load_average_before"] >= 0
    assert "others_share_of_cpu" in told
    assert told["sync_ms"] > 0
