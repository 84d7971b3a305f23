"""The trace of one turn: which code runs, and how often it crosses packages and layers."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.docs.scripts import script

ROOT = Path(__file__).parents[2]
tracer = script("trace_turn")

LAYERS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["pointsman.gateway", "pointsman.mcp | pointsman.web", "pointsman.kernel"]
[[tool.importlinter.contracts]]
type = "forbidden"
"""
ABOVE, BESIDE, BELOW = ("gateway/a.py", "serve"), ("web/b.py", "look"), ("kernel/c.py", "sign")
INSIDE, OUTSIDE = ("gateway/turns/d.py", "Turn.run"), ("version.py", "read")


def test_layers_are_ranked_from_below() -> None:
    assert tracer.read_layers(LAYERS) == {"gateway": 2, "mcp": 1, "web": 1, "kernel": 0}


def test_every_package_of_the_product_has_a_layer() -> None:
    layers = tracer.read_layers((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = {path.parent.name for path in (ROOT / "src" / "pointsman").glob("*/__init__.py")}
    assert packages <= layers.keys()


def test_a_crossing_is_a_call_between_packages_and_only_some_go_upwards() -> None:
    down, up, within, sideways = (
        (ABOVE, BELOW), (BELOW, BESIDE), (ABOVE, INSIDE), (BESIDE, OUTSIDE),
    )  # fmt: skip
    pairs = [down, up, within, sideways]
    layers = tracer.read_layers(LAYERS)
    assert tracer.crossings(pairs) == [down, up, sideways]
    assert tracer.calls_upwards(pairs, layers) == [up]
    trace = tracer.Trace(
        dict.fromkeys([ABOVE, INSIDE, ("gateway/a.py", "end")]), dict.fromkeys(pairs)
    )
    assert [*tracer.figures(trace, layers).values()] == [3, 2, 3, 1]
    page = tracer.page(trace, layers)
    assert "- `kernel/c.py` `sign` calls `web/b.py` `look`\n" in page
    assert page.endswith("1. `gateway/a.py`\n2. `gateway/turns/d.py`\n")


def a_frame(file: str, name: str, above: object = None, line: int = 1) -> SimpleNamespace:
    qualified = f"outer.<locals>.{name}" if name == "<lambda>" else name
    code = SimpleNamespace(
        co_filename=str(tracer.SOURCE / file), co_name=name, co_qualname=qualified,
        co_firstlineno=line,
    )  # fmt: skip
    return SimpleNamespace(f_code=code, f_back=above)


def test_a_trace_begins_in_the_gateway_and_looks_past_frames_of_others() -> None:
    trace = tracer.Trace()
    trace.profile(a_frame("storage/early.py", "commit"), "call", None)
    assert not trace.functions
    serve = a_frame("gateway/a.py", "serve")
    between = a_frame("/elsewhere/loop.py", "run", a_frame("gateway/a.py", "<listcomp>", serve))
    trace.profile(serve, "call", None)
    trace.profile(between, "call", None)
    trace.profile(a_frame("kernel/c.py", "<lambda>", between, 7), "call", None)
    trace.profile(a_frame("kernel/c.py", "sign"), "return", None)
    sign = ("kernel/c.py", "outer.<locals>.<lambda>:7")
    assert [*trace.functions] == [ABOVE, sign]
    assert [*trace.pairs] == [(ABOVE, sign)]
    assert [*trace.end_turn().functions] == [ABOVE, sign]
    assert not trace.functions
    assert not trace.pairs


def test_what_most_turns_ran_is_kept() -> None:
    often = tracer.Trace({ABOVE: None, BELOW: None}, {(ABOVE, BELOW): None})
    once = tracer.Trace({ABOVE: None, BESIDE: None}, {(ABOVE, BESIDE): None})
    found = tracer.usual([often, once, often])
    assert [*found.functions] == [ABOVE, BELOW]
    assert [*found.pairs] == [(ABOVE, BELOW)]


def test_a_module_beside_the_packages_is_a_package_of_its_own() -> None:
    assert [tracer.package(each) for each in (OUTSIDE, INSIDE)] == ["version", "gateway"]


@pytest.mark.slow
def test_a_turn_runs_from_the_gateway_to_the_ledger() -> None:
    trace = tracer.trace_turn()
    packages = {tracer.package(each) for each in trace.functions}
    assert {"gateway", "calls", "recording", "providers", "turns", "storage", "kernel"} <= packages
    # The request comes first, whatever threads still do for the turn before.
    assert tracer.package(next(iter(trace.functions))) == "gateway"
    # The scripted provider runs beside the gateway and is no part of the turn.
    assert "testing" not in packages
    assert not any("<listcomp>" in name for _, name in trace.functions)
    layers = tracer.read_layers((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(tracer.calls_upwards(trace.pairs, layers)) < set(tracer.crossings(trace.pairs))


def test_the_page_has_the_figures_of_its_own_list() -> None:
    page = (ROOT / tracer.PAGE).read_text("utf-8")
    files = re.findall(r"^\d+\. `(.+)`$", page, re.MULTILINE)
    upwards = re.findall(r"^- `.+` calls `.+`$", page, re.MULTILINE)
    assert f"| files | {len(files)} |" in page
    assert f"| calls upwards | {len(upwards)} |" in page
