"""The page about HTTP lists the routes, events, headers and metrics there are, and no others."""

import json
import re
from pathlib import Path

import msgspec

from pointsman.gateway.api.feed.events import EVENT_NAMES
from pointsman.gateway.api.models import ANSWER_HEADERS
from pointsman.gateway.api.shapes import ErrorAnswer
from pointsman.gateway.api.status.handlers import GAUGES
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.telemetry.metrics import COUNTERS, HISTOGRAMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    _, found, rest = PAGE.partition(f"\n## {heading}\n")
    assert found
    return rest.partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_every_route_is_listed_as_it_is_described() -> None:
    rows = [line for line in section("Routes").splitlines() if re.match(r"\| [A-Z]+ ", line)]
    assert rows == [
        f"| {route.method} | `{route.path}` | {route.scope} | {route.summary} |"
        for route in ROUTES.values()
    ]


def test_every_event_is_listed() -> None:
    assert first_cells(section("The live feed")) == list(EVENT_NAMES)


def test_every_header_of_an_answer_is_listed() -> None:
    told = section("Model calls").partition("An answer carries:")[2]
    assert first_cells(told) == list(ANSWER_HEADERS)


def test_every_metric_is_listed_with_its_type() -> None:
    rows = re.findall(r"^\| `(pointsman_\w+)` \| (\w+) \|", section("Telemetry"), re.MULTILINE)
    told = dict.fromkeys(COUNTERS, "counter") | dict.fromkeys(HISTOGRAMS, "histogram")
    assert dict(rows) == told | dict.fromkeys(GAUGES, "gauge")


def test_the_error_shown_has_the_shape_of_errors() -> None:
    text = re.findall(r"^```json error\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    msgspec.convert(json.loads(text), ErrorAnswer, strict=True)
