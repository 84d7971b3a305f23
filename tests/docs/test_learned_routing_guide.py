"""The guide to learned routing: its example loads, and its figures are those of the bench."""

import json
import re
from pathlib import Path

from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import EMBEDDED_MODEL

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide/learned-routing.md").read_text(encoding="utf-8")


def test_the_example_loads():
    (body,) = re.findall(r"```yaml routing\n(.*?)```", GUIDE, re.DOTALL)
    found = read_policy(body.encode(), "routing.yaml", {EMBEDDED_MODEL: None}, "/").pattern
    assert (found.method, str(found.explore.share), str(found.shadow)) == (
        "evidence",
        "0.05",
        "0.02",
    )


def test_every_table_of_the_bench_stands_in_the_guide():
    page = (ROOT / "bench/results/quality.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    assert [line for line in rows if line not in GUIDE] == []


def test_what_minilm_is_worth_stands_in_the_guide_as_it_was_measured():
    page = (ROOT / "bench/results/quality_minilm.md").read_text(encoding="utf-8")
    heads = ("| router |", "|---")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    rows = [line for line in rows if not line.startswith(heads)]
    assert len(rows) == 13
    assert [line for line in rows if line not in GUIDE] == []
    speed = json.loads((ROOT / "bench/results/quality_minilm_speed.json").read_text())
    for name in ("short", "long"):
        assert f"{speed[name]['cpu_ms']:.0f} ms" in GUIDE


def test_static_rows_are_those_of_the_other_page():
    page = json.loads((ROOT / "bench/results/quality_minilm.json").read_text())
    sets = json.loads((ROOT / "bench/results/quality.json").read_text())["sets"]
    for name, about in page.items():
        for way in ("evidence, logged", "evidence, full"):
            assert about["routers"][way] == sets[name]["routers"][way]


def test_figures_reach_what_is_promised():
    sets = json.loads((ROOT / "bench/results/quality.json").read_text())["sets"]
    named = ("routellm_mmlu", "routellm_gsm8k", "routerbench_subset")
    mmlu, gsm8k, many = (sets[name]["routers"] for name in named)
    large = sets["routellm_mmlu_large"]["routers"]
    assert large["evidence, logged"]["apgr"] >= 0.65
    by_signs, by_all = (large[f"evidence, logged{told}"] for told in ("", ", all compared"))
    assert by_all["apgr"] - by_signs["apgr"] < 0.01
    assert mmlu["evidence, logged"]["apgr"] >= 0.61
    assert mmlu["evidence, full"]["apgr"] >= 0.63
    assert gsm8k["evidence, full"]["apgr"] >= 0.615
    assert many["evidence, logged"]["aiq"] > many["zero router"]["aiq"]
    assert many["evidence, logged"]["aiq"] >= 0.828
