"""The page that verifies receipts, in a browser without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.receipts.receipts import Given, made_receipts

from pointsman.cli.receipt import page_text

MOST_BYTES = 300_000
MOST_MS = 1_000


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Given]:
    return made_receipts(tmp_path_factory.mktemp("receipts") / "home")


@pytest.fixture(params=["light", "dark"])
def page(chromium: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The page, opened from a file; whatever it asks for besides itself is a fault."""
    file = tmp_path / "verify.html"
    file.write_text(page_text(), encoding="utf-8")
    context = chromium.new_context(color_scheme=request.param, offline=True)
    found = context.new_page()
    faults: list[str] = []
    found.on("request", lambda asked: faults.append(asked.url))
    found.on("console", lambda told: faults.append(told.text))
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.goto(file.as_uri())
    yield found
    assert {*faults} == {file.as_uri()}
    context.close()


def verdict(page: Any, data: bytes, message: bytes = b"", key: str = "") -> dict[str, str]:
    """Give the page a receipt, and wait for what it says of each step."""
    page.reload()
    page.fill("#message", message.decode())
    page.fill("#key", key)
    receipt = {"name": "receipt.json", "mimeType": "application/json", "buffer": data}
    page.set_input_files("#file", receipt)
    page.wait_for_selector("#verdict[data-verdict]")
    rows = page.locator("#steps li").all()
    cells = [each.locator("span").all_inner_texts() for each in rows]
    found = {step: state for state, step, _ in cells}
    return {**found, "": page.get_attribute("#verdict", "data-verdict")}


def test_the_page_is_one_small_file() -> None:
    assert len(page_text().encode()) < MOST_BYTES
    assert "http://" not in page_text()
    assert "https://" not in page_text()


def test_a_receipt_is_verified_within_a_second(page: Any, given: dict[str, Given]) -> None:
    data, message = given["placed full"]
    key = json.loads(data)["signature"]["key"]
    found = verdict(page, data, message, key)
    assert found.pop("") == "ok"
    assert {*found.values()} == {"ok"}
    assert len(found) == 11
    told = page.inner_text("#verdict")
    assert told.startswith("Nothing differs")
    assert int(told.rpartition("·")[2].removesuffix("ms")) < MOST_MS
    assert page.inner_text("#told") == "The decision: house:llama"


def test_the_first_step_that_differs_is_shown(page: Any, given: dict[str, Given]) -> None:
    data, message = given["rule full"]
    changed = verdict(page, data.replace(b"acme:small", b"acme:tiny!", 1), message)
    assert changed[""] == "failed"
    assert [*changed.values()].count("differs") == 1
    assert "facts and policy: " in page.inner_text("#verdict")
    other = verdict(page, data, b"another text")
    assert (other[""], other["message"]) == ("failed", "differs")
    assert "signature" not in other


def test_what_was_not_disclosed_is_said(page: Any, given: dict[str, Given]) -> None:
    data, message = given["rule redacted"]
    found = verdict(page, data, message)
    assert (found[""], found["decision"], found["signature"]) == ("ok", "not run", "ok")
    assert "not disclosed" in page.inner_text("#chain")
