"""What is served of the dashboard, without a browser: files, headers, logins."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.gateway.house import Running, running, write_home

from pointsman.gateway.api.dashboard.handlers import POLICY
from pointsman.web import STATIC, assets, help_pages, help_picture, help_text

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
MOST_BYTES = 150_000


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Running]:
    home = write_home(tmp_path / "home", pointsman={"telemetry": {"logs": "off"}})
    with running(home) as serving:
        yield serving


class Browser:
    """The parts of a browser that matter here: a cookie, the page's half, and whose page asks."""

    def __init__(self, live: Running) -> None:
        self.client = httpx.Client(base_url=live.url, trust_env=False)
        self.own = {"origin": live.url, "sec-fetch-site": "same-origin"}
        self.page = ""

    def log_in(self, token: str) -> httpx.Response:
        answer = self.client.post("/api/login", json={"token": token}, headers=self.own)
        self.page = answer.json().get("page", "")
        return answer

    def ask(self, method: str, path: str, *, is_bare: bool = False, **more: str) -> httpx.Response:
        half = {} if is_bare else {"x-pointsman-page": self.page}
        headers = {**self.own, **half, **{name.replace("_", "-"): v for name, v in more.items()}}
        headers = {name: value for name, value in headers.items() if value}
        return self.client.request(method, path, headers=headers)


@pytest.fixture
def browser(live: Running) -> Iterator[Browser]:
    found = Browser(live)
    yield found
    found.client.close()


def test_the_page_may_load_its_own_files_and_nothing_else(live: Running) -> None:
    answer = live.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy == POLICY
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert re.findall(r"https?://", answer.text) == []


def test_files_are_named_by_what_they_hold_and_may_be_kept(live: Running) -> None:
    for path in re.findall(r'(?:src|href)="(/assets/[^"]+)"', live.get("/").text):
        answer = live.get(path)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert re.search(r"-[\w-]{8}\.\w+$", path)
        again = live.get(path, if_none_match=answer.headers["etag"])
        assert (again.status_code, again.content) == (304, b"")
    assert live.get("/").headers["cache-control"] == "no-cache"


def test_all_of_it_weighs_less_than_150_kilobytes() -> None:
    found = assets()
    assert "index.html" in found
    assert sum(len(each.packed) for each in found.values()) < MOST_BYTES
    for each in found.values():
        assert gzip.decompress(each.packed) == each.body


def test_the_built_files_are_those_of_the_sources() -> None:
    told = json.loads((STATIC / "manifest.json").read_text())["sources"]
    found = [*(WEB / "src").rglob("*"), WEB / "index.html", WEB / "package-lock.json"]
    digests = {
        path.relative_to(WEB).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
        if path.is_file()
    }
    assert told == digests, "run `npm run build` in web/"


def test_no_source_makes_html_of_a_text_and_the_lock_names_no_host() -> None:
    for path in (WEB / "src").rglob("*.ts*"):
        text = path.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (path.name, word)
    assert "http" not in re.sub(r'"(?:url|funding)".*', "", (WEB / "package-lock.json").read_text())


@pytest.mark.parametrize("name", ["..%2F..%2Fpyproject.toml", "nothing.js", "%2Fetc%2Fpasswd"])
def test_no_other_file_can_be_asked_for(live: Running, name: str) -> None:
    assert live.get(f"/assets/{name}").status_code == 404
    assert live.get(f"/api/help/pages/{name}").status_code == 404
    assert live.get(f"/api/help/pictures/{name}").status_code == 404


def test_help_lists_every_page_of_the_documentation(live: Running) -> None:
    pages = live.get("/api/help").json()["pages"]
    on_disk = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {each["name"] for each in pages} == on_disk
    text = live.get("/api/help/pages/guide%2Frules.md").json()["text"]
    assert text == (ROOT / "docs" / "guide" / "rules.md").read_text("utf-8")
    assert help_text("../pyproject.toml") is None
    assert help_picture("../../LICENSE") is None
    assert len(help_pages()) == len(on_disk)


def test_a_login_is_a_cookie_no_script_can_read(live: Running, browser: Browser) -> None:
    answer = browser.log_in(live.admin)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} < {each.strip() for each in cookie.split(";")}
    assert live.admin not in cookie + answer.text
    assert browser.ask("GET", "/api/keys").status_code == 200
    me = browser.ask("GET", "/api/me").json()
    assert (me["name"], me["is_admin"], me["is_logged_in"]) == ("admin", True, True)


def test_a_wrong_token_is_no_login(browser: Browser) -> None:
    answer = browser.log_in("pa_wrong")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert browser.ask("GET", "/api/keys").status_code == 401


def test_the_cookie_alone_is_worth_nothing(live: Running, browser: Browser) -> None:
    browser.log_in(live.admin)
    assert browser.ask("GET", "/api/keys", is_bare=True).status_code == 401
    page, browser.page = browser.page, "another-page"
    assert browser.ask("GET", "/api/keys").status_code == 401
    browser.page = page
    browser.client.cookies.clear()
    assert browser.ask("GET", "/api/keys").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "", "sec_fetch_site": ""},
        {"origin": "", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://127.0.0.1:9", "sec_fetch_site": "same-site"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    ],
)
def test_only_a_page_of_the_gateway_acts_for_whoever_is_logged_in(
    live: Running, browser: Browser, headers: dict[str, str]
) -> None:
    browser.log_in(live.admin)
    assert browser.ask("POST", "/api/verify", **headers).status_code == 403
    assert browser.ask("POST", "/api/export", **headers).status_code == 403
    assert browser.ask("DELETE", "/api/budgets/day", **headers).status_code == 403
    assert browser.ask("POST", "/api/verify").status_code == 200


def test_other_sites_pages_read_nothing_even_where_no_key_is_needed(live: Running) -> None:
    assert live.get("/api/turns").status_code == 200
    for site in ("cross-site", "same-site"):
        assert live.get("/api/turns", sec_fetch_site=site).status_code == 403
        assert live.get("/api/events", sec_fetch_site=site).status_code == 403
        assert live.post("/api/verify", b"", sec_fetch_site=site).status_code == 403
    assert live.get("/", host="rebound.example").status_code == 421


def test_the_cookie_calls_no_model(live: Running, browser: Browser) -> None:
    key = live.post("/api/keys", {"name": "one"}, authorization=f"Bearer {live.admin}")
    assert key.status_code == 201
    browser.log_in(live.admin)
    assert browser.ask("GET", "/v1/models").status_code == 401


def test_a_login_may_do_what_its_key_may_and_ends_with_it(live: Running, browser: Browser) -> None:
    admin = {"authorization": f"Bearer {live.admin}"}
    made = live.post("/api/keys", {"name": "reader", "scopes": ["read"]}, **admin).json()
    assert browser.log_in(made["key"]).status_code == 200
    assert browser.ask("GET", "/api/me").json()["scopes"] == ["read"]
    assert browser.ask("GET", "/api/turns").status_code == 200
    assert browser.ask("POST", "/api/verify").status_code == 403
    assert browser.ask("GET", "/api/keys").status_code == 403
    live.client.delete(f"/api/keys/{made['id']}", headers=admin)
    assert browser.ask("GET", "/api/turns").status_code == 401


def test_a_key_that_may_not_read_cannot_log_in(live: Running, browser: Browser) -> None:
    admin = {"authorization": f"Bearer {live.admin}"}
    made = live.post("/api/keys", {"name": "models only"}, **admin).json()
    assert browser.log_in(made["key"]).status_code == 403


def test_logging_out_ends_the_login(live: Running, browser: Browser) -> None:
    browser.log_in(live.admin)
    page, cookies = browser.page, dict(browser.client.cookies)
    answer = browser.ask("POST", "/api/logout")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    browser.page = page
    browser.client.cookies.update(cookies)
    assert browser.ask("GET", "/api/keys").status_code == 401
