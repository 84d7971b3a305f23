"""A browser before a real run. Without Chromium or Playwright these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running
from tests.web.scene import in_memory, scene

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "docs" / "screenshots"
KEEP = "POINTSMAN_SCREENSHOTS"
"""Set to write what is seen into the documentation."""

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A gateway in whose home some work was done."""
    with in_memory() as folder, scene(folder / "home") as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium; for one module, because it brings an event loop along."""
    from playwright import sync_api as playwright

    path = shutil.which("chromium")
    if path is None:
        missing = "there is no chromium here: `make browser` installs it, as root"
        if "CI" in os.environ:
            pytest.fail(missing)
        pytest.skip(missing)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Guard:
    """Notes what no page may do: ask elsewhere, break its policy, or complain."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.faults: list[str] = []
        self.may_miss = False
        """Whether something may be asked for that is refused: a browser complains of that, too."""

    def watch(self, page: Any) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("dialog", self._dialog)

    def _said(self, message: Any) -> None:
        is_missing = self.may_miss and message.text.startswith("Failed to load resource")
        if message.type in {"error", "warning"} and not is_missing:
            self.faults.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(f"{self._origin}/") and not request.url.startswith("blob:"):
            self.faults.append(f"asked elsewhere: {request.url[:200]}")

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def logged_in(chromium: Any, live: Running) -> Any:
    """What a browser keeps of a login: the cookie, and the page's half."""
    context = chromium.new_context()
    log_in(context.new_page(), live)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def open_page(chromium: Any, live: Running, logged_in: Any) -> Iterator[Callable[..., Any]]:
    """Open a page that is watched; whatever it did wrong fails the test."""
    guard, contexts = Guard(live.url), []

    def opened(
        path: str = "", *, login: bool = True, may_miss: bool = False, **settings: Any
    ) -> Any:
        guard.may_miss = may_miss
        usual = {"viewport": WIDE, "color_scheme": "light"}
        usual |= {"storage_state": logged_in} if login else {}
        context = chromium.new_context(**{**usual, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        guard.watch(page)
        page.goto(f"{live.url}/{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert guard.faults == []


def log_in(page: Any, live: Running) -> None:
    page.goto(f"{live.url}/#/login")
    page.get_by_label("admin token or key").fill(live.admin)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Now").wait_for()
    page.locator(".side-foot").get_by_text("admin").wait_for()


@pytest.fixture
def seen(tmp_path: Path) -> Callable[[Any, str], Path]:
    """Take a picture of a page; kept in the documentation when asked for."""
    folder = SCREENSHOTS if os.environ.get(KEEP) else tmp_path
    folder.mkdir(exist_ok=True)

    def taken(page: Any, name: str) -> Path:
        path = folder / f"{name}.png"
        page.mouse.move(0, 0)
        page.screenshot(path=str(path), animations="disabled")
        return path

    return taken


def turns(live: Running, **query: str) -> list[dict[str, Any]]:
    """Give the turns that the gateway lists."""
    wanted = "&".join(f"{name}={value}" for name, value in {"limit": "500", **query}.items())
    return live.get(f"/api/turns?{wanted}").json()["turns"]


def has_count(locator: Any, count: int) -> None:
    """Wait until there are so many of something; the page's policy forbids to wait by script."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count)
