"""axe-core finds nothing on any page, dark or light."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running
from tests.web.conftest import turns

AXE = find_spec("axe_playwright_python")
RUN = "only => axe.run(document, only ? {runOnly: only} : {resultTypes: ['violations']})"
ONLY = {"light": None, "dark": ["color-contrast"]}
"""Dark differs from light in its colours alone."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AXE is None, reason="axe-playwright-python brings axe-core"),
]


def faults(page: Any, only: list[str] | None) -> list[str]:
    assert AXE is not None
    assert AXE.origin is not None
    source = (Path(AXE.origin).parent / "axe.min.js").read_text("utf-8")
    # As the debugger does it: the page's own policy would refuse a script from elsewhere.
    page.evaluate(source)
    found = page.evaluate(RUN, only)["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:160]}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_fault(open_page: Callable[..., Any], live: Running, scheme: str) -> None:
    rejected = next(each for each in turns(live) if each["rejected"])
    page = open_page("#/", color_scheme=scheme, bypass_csp=True)
    pages = {
        "": ".chart canvas",
        "turns": "tr[data-row]",
        f"turns/{rejected['turn_id']}": ".json",
        "sessions": "tr[data-row]",
        "providers": ".performance tbody tr",
        "cost": "tbody tr",
        "keys": ".empty, form.filters",
        "learning": ".stats",
        "receipts": "tbody tr",
        "sessions/docs-team": "tr[data-row]",
        "policies": ".problems",
        "workflows": "tr[data-row]",
        "workflows/reviewer": ".graph .node",
        "agents": ".card",
        "ledger": ".signed",
        "help/guide%2Fgateway.md": ".prose h1",
        "login": ".login",
    }
    told: dict[str, list[str]] = {}
    for path, there in pages.items():
        page.goto(f"{live.url}/#/{path}")
        page.locator(there).first.wait_for()
        told[path] = faults(page, ONLY[scheme])
    assert {path: each for path, each in told.items() if each} == {}
