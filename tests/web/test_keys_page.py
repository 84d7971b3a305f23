"""The page of keys, in a home of its own: once there is a key, every call needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.house import Running

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


def test_a_key_is_made_shown_once_and_revoked(open_page: Open, live: Running) -> None:
    page = open_page("#/keys")
    form = page.locator("form.filters")
    form.get_by_label("name").fill("night shift")
    form.get_by_label("budget in dollars").fill("2.5")
    form.get_by_label("requests a minute").fill("30")
    page.get_by_role("button", name="Make the key").click()
    secret = page.locator(".command code").first.inner_text()
    row = page.locator(".keys tbody tr").filter(has_text="night shift")
    row.wait_for()
    assert "30 rpm" in row.inner_text()
    assert "2.5" in row.inner_text()
    assert live.chat("hello", headers={"authorization": f"Bearer {secret}"}).status_code == 200
    row.get_by_role("button", name="revoke").click()
    row.get_by_role("button", name="revoke for good").click()
    row.wait_for(state="detached")
    refused = live.chat("hello", headers={"authorization": f"Bearer {secret}"})
    assert refused.status_code == 401
