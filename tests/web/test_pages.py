"""Every page on the data of a real run, as somebody uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running, eventually
from tests.web.conftest import PHONE, has_count, turns

from pointsman.gateway.serving.feed import sse
from pointsman.kernel.instant import SECOND, Instant
from pointsman.recording.health import HomeHealth
from pointsman.storage.sqlite.place import SqlitePlace
from pointsman.storage.stores.health import HealthStore
from pointsman.testing import FrozenClock, fails

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def healthy_house(live: Running) -> None:
    """Begin each test with no outage and no fault left over from another one."""
    live.parts.health.clear("house")
    live.providers["house"].scripted._replies.clear()


See = Callable[[Any, str], Path]


def test_now_shows_figures_models_budgets_and_providers(open_page: Open, seen: See) -> None:
    page = open_page("#/")
    page.locator(".stats").get_by_text("turns today").wait_for()
    assert page.locator(".shares").get_by_text("claude-opus-4-7").count() == 1
    assert page.locator(".budgets").get_by_text("whole day").is_visible()
    page.locator(".providers li").filter(has_text="600/600 rpm").wait_for()
    assert page.locator(".providers .lamp.healthy").count() >= 3
    assert page.locator(".chart canvas").count() == 1
    page.get_by_text("live", exact=True).wait_for()
    seen(page, "now")


def test_a_decision_appears_on_now_while_somebody_looks(open_page: Open, live: Running) -> None:
    page = open_page("#/")
    page.get_by_text("live", exact=True).wait_for()
    live.chat("Which colour has the signal?", headers={"x-session-id": "watched"})
    page.locator(".feed-lines .fresh").first.wait_for()
    assert page.locator(".feed-lines .fresh a").first.get_attribute("href").startswith("#/turns/")


def test_a_policy_that_is_published_or_refused_appears_on_now(
    open_page: Open, live: Running
) -> None:
    page = open_page("#/")
    page.get_by_text("live", exact=True).wait_for()
    told = {
        "at": "2026-03-30T12:00:00.000000Z", "number": 7, "by": "berta",
        "files": ["routing.yaml"], "policy_id": "sha256:" + "ab" * 32,
    }  # fmt: skip
    live.parts.feed.tell(sse("policy.published", json.dumps(told).encode(), "e-1"))
    why = {"at": told["at"], "publication": "publication 8", "problems": ["<b>not signed</b>"]}
    live.parts.feed.tell(sse("policy.refused", json.dumps(why).encode(), "e-2"))
    published = page.locator(".feed-lines li").filter(has_text="policy 7 by berta")
    published.wait_for()
    assert "routing.yaml" in published.inner_text()
    assert "sha256:abababababab" in published.inner_text()
    refused = page.locator(".feed-lines li").filter(has_text="publication 8")
    refused.wait_for()
    assert "policy refused" in refused.inner_text()
    assert "<b>not signed</b>" in refused.inner_text()
    assert refused.locator("a").get_attribute("href") == "#/policies"


def test_a_provider_that_is_out_tells_its_cause_and_when_it_clears(
    open_page: Open, live: Running
) -> None:
    for _ in range(5):
        live.providers["house"].then(*[fails(500)] * 3)
        live.chat("hello", "llama")
    page = open_page("#/")
    out = page.locator(".providers li.unavailable").first
    out.wait_for()
    assert "failures" in out.inner_text()
    assert re.search(r"clears in \d+ (min|s)", out.inner_text())


def test_a_provider_that_one_turn_may_try_says_so(open_page: Open, live: Running) -> None:
    health = live.parts.health
    then = Instant(live.parts.pointsman.clock.now() - 310 * SECOND)
    store = HealthStore(SqlitePlace(live.home / "health.db"))
    another = HomeHealth(FrozenClock(then), store, "another")
    health.clear("house")
    for _ in range(2):
        another.note_call_end("house:llama", "network", ())
    another.close()
    page = open_page("#/")
    tried = page.locator(".providers li.half_open").first
    tried.wait_for()
    assert "network" in tried.inner_text()
    assert "one turn may try it" in tried.inner_text()
    health.clear("house")


def test_turns_are_filtered_and_opened_by_keyboard(
    open_page: Open, live: Running, seen: See
) -> None:
    page = open_page("#/turns")
    page.locator("tr[data-row]").first.wait_for()
    seen(page, "turns")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.locator("select[name=rule]").select_option("fast for commits")
    page.wait_for_url(re.compile("rule=fast"))
    has_count(page.locator("tr[data-row]"), len(turns(live, rule="fast+for+commits")))
    assert set(page.locator("td.by").all_inner_texts()) == {"“fast for commits”"}
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_text("Why this model").wait_for()


@pytest.mark.parametrize(
    ("label", "typed", "query"),
    [
        ("session", "docs-team", {"session": "docs-team"}),
        ("cost at least", "0.006", {"min_cost_usd": "0.006"}),
        ("message is exactly", "/commit bump the price table", {"rule": "fast for commits"}),
    ],
)
def test_turns_are_found_by_session_cost_and_the_digest_of_a_text(
    open_page: Open, live: Running, label: str, typed: str, query: dict[str, str]
) -> None:
    page = open_page("#/turns")
    page.locator("tr[data-row]").first.wait_for()
    page.get_by_label(label, exact=True).fill(typed)
    wanted = len(turns(live, **query))
    wanted = 3 if label == "message is exactly" else wanted
    has_count(page.locator("tr[data-row]"), wanted)


def test_the_why_view_shows_chain_facts_policy_and_what_followed(
    open_page: Open, live: Running, seen: See
) -> None:
    fell = next(each for each in turns(live) if each["fallbacks"])
    page = open_page(f"#/turns/{fell['turn_id']}")
    chain = page.locator(".chain")
    chain.wait_for()
    assert chain.locator(".slot.chose").get_by_text("deep for architecture").count() == 1
    assert chain.locator(".points.chose").count() == 1
    page.get_by_text("Architecture of the search index", exact=True).wait_for()
    followed = page.locator(".happenings .happening")
    told = live.get(f"/api/turns/{fell['turn_id']}").json()
    first, last = told["calls"]
    # At night another rule takes over, by day the default.
    (fallback,) = told["fallbacks"]
    by_day = fallback["policy"] == "global_default"
    by = "global default" if by_day else "rule “architecture at night”"
    assert [followed.nth(n).inner_text().split("\n")[0] for n in range(3)] == [
        f"call 1 {first['model']} failed: server_error 500",
        f"fallback to {last['model']} by {by}",
        f"call 2 {last['model']} done",
    ]
    assert f"{first['model']} failed: server_error 500" in followed.nth(1).inner_text()
    assert f"${last['cost_usd']}" in followed.nth(2).inner_text()
    chosen = page.locator("h2.chosen").inner_text()
    assert chosen.split() == [first["model"], "→", last["model"]]
    assert page.locator(".why-head .badge").inner_text() == "fell back"
    assert page.locator(".not-asked li").count() == len(told["not_asked"]) > 0
    facts = page.locator(".card", has=page.get_by_role("heading", name="Facts"))
    policy = page.locator(".card", has=page.get_by_role("heading", name="Policy"))
    left, right = facts.bounding_box(), policy.bounding_box()
    assert left
    assert right
    assert (left["y"], left["x"] < right["x"]) == (right["y"], True)
    seen(page, "why")


def test_the_replay_button_says_identical(open_page: Open, live: Running, seen: See) -> None:
    rejected = next(each for each in turns(live) if each["is_preview"] and each["rejected"])
    page = open_page(f"#/turns/{rejected['turn_id']}")
    page.locator(".slot.rejected").wait_for()
    lost = page.locator(".slot.rejected .attempts li")
    assert "provider unavailable" in lost.inner_text()
    assert "rule “" in lost.inner_text()
    page.keyboard.press("r")
    page.locator(".replayed").get_by_text("identical", exact=True).wait_for()
    assert page.locator(".replayed").get_by_text("byte for byte").count() == 1
    seen(page, "why-rejected")


def test_the_neighbours_behind_a_pattern_are_shown(open_page: Open, live: Running) -> None:
    found = turns(live, policy="global_default")
    for each in found:
        shown = live.get(f"/api/turns/{each['turn_id']}").json()
        if any(len(link.get("neighbours") or ()) >= 8 for link in shown["chain"]):
            break
    page = open_page(f"#/turns/{each['turn_id']}")
    evidence = page.locator("details.evidence")
    evidence.locator("summary").click()
    assert evidence.locator("tbody tr").count() >= 8
    assert evidence.get_by_text("turn-0").is_visible()


def test_sessions_lead_to_what_one_cost(open_page: Open, seen: See) -> None:
    page = open_page("#/sessions")
    page.get_by_role("link", name="checkout-refactor").click()
    page.get_by_text("Where the money went").wait_for()
    assert page.locator(".tree.top .model").count() >= 3
    page.locator("tr[data-row]").first.wait_for()
    seen(page, "session")


def test_rules_stand_in_order_with_hits_and_marks(open_page: Open) -> None:
    page = open_page("#/policies")
    rules = page.locator(".rules li")
    rules.first.wait_for()
    names = rules.locator("strong").all_inner_texts()
    assert names[:3] == ["budget breaker", "deep for architecture", "fast for commits"]
    assert int(rules.nth(2).locator(".rule-hits a").inner_text()) >= 6
    assert rules.nth(4).get_by_text("shadowed").is_visible()


def test_a_policy_is_checked_tried_backtested_and_saved(
    open_page: Open, live: Running, seen: See
) -> None:
    page = open_page("#/policies")
    editor = page.get_by_label("the text of routing.yaml")
    editor.wait_for()
    text = editor.input_value()
    editor.fill(text.replace("openai:gpt-5-mini", "openai:gpt-5-maxi", 1))
    fault = page.locator(".problems li.danger").first
    fault.wait_for()
    line = text[: text.index("openai:gpt-5-mini")].count("\n") + 1
    assert f"routing.yaml:{line}:10" in fault.inner_text()
    assert page.locator(".editor .line.faulty .line-number").inner_text() == str(line)
    assert page.get_by_role("button", name="Save").is_disabled()
    seen(page, "policies-error")
    changed = text.replace("use: openai:gpt-5-mini", "use: anthropic:claude-haiku-4-5", 1)
    editor.fill(changed)
    page.locator(".problems li.clear").wait_for()
    page.get_by_label("message").fill("/commit try me")
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator(".tried .slot.chose").get_by_text("claude-haiku-4-5").first.wait_for()
    page.get_by_role("button", name="Decide every recorded turn again").click()
    page.locator(".backtest").wait_for()
    shifts = page.locator(".backtest tbody tr").first
    moved = turns(live, rule="fast+for+commits", model="openai:gpt-5-mini")
    assert shifts.locator("td").nth(2).inner_text() == str(len(moved))
    page.get_by_role("heading", name="Dry run").scroll_into_view_if_needed()
    page.mouse.wheel(0, 2000)
    seen(page, "policies-backtest")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("saved and in force").wait_for()
    served = live.chat("/commit now it is another").headers["x-pointsman-model"]
    assert served == "anthropic:claude-haiku-4-5"
    (live.home / "routing.yaml").write_text(text)
    live.parts.pointsman.reload()


def test_a_workflow_decision_shows_distribution_lineage_and_cache(
    open_page: Open, seen: See
) -> None:
    page = open_page("#/workflows")
    page.get_by_role("link", name="reviewer").click()
    page.get_by_text("by weight").wait_for()
    assert page.get_by_text("70.0 %").is_visible()
    assert page.locator(".graph .node").count() > 5
    page.get_by_role("button", name="Evaluate").click()
    page.get_by_text("leads to", exact=False).last.wait_for()
    seen(page, "workflow")
    page.goto(page.url.split("#")[0] + "#/workflows/quality_gate")
    page.get_by_role("button", name="Forget them").click()
    page.get_by_text("0 answers kept").wait_for()


def test_agents_show_modules_trust_choices_and_requests(open_page: Open, seen: See) -> None:
    page = open_page("#/agents", may_miss=True)
    has_count(page.locator(".graph .node"), 5)
    assert page.locator(".graph .edge").count() == 3
    has_count(page.locator("svg.spark"), 2)
    assert page.get_by_text("no events").count() == 3
    page.locator(".requests li").first.wait_for()
    assert page.locator(".requests").get_by_text("asked for often").is_visible()
    page.get_by_text("Latest choices of an agent").wait_for()
    assert page.get_by_text("job-2").count() >= 1
    seen(page, "agents")
    page.get_by_role("button", name="Approve").click()
    page.locator(".requests").get_by_text("this role has no vote").first.wait_for()


def test_the_ledger_is_verified_exported_and_audited(open_page: Open, seen: See) -> None:
    page = open_page("#/ledger")
    page.get_by_role("button", name="Verify the whole ledger").click()
    page.get_by_text("intact", exact=True).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the bundle").click()
    assert Path(download.value.path()).read_text().count("\n") > 100
    page.get_by_role("button", name="Audit").click()
    page.get_by_text("0 violations").wait_for()
    assert page.get_by_text("proved", exact=True).is_visible()
    seen(page, "ledger")


def test_help_renders_the_documentation_and_its_links(open_page: Open, seen: See) -> None:
    page = open_page("#/help/guide%2Frules.md")
    page.get_by_role("heading", name="Writing rules").wait_for()
    assert page.locator(".prose table").count() >= 1
    seen(page, "help")
    for path in page.locator(".help-nav a").evaluate_all("links => links.map(a => a.hash)"):
        page.goto(page.url.split("#")[0] + path)
        page.locator(".prose h1").first.wait_for()


def test_shortcuts_are_listed_and_lead_to_pages(open_page: Open) -> None:
    page = open_page("#/")
    page.locator(".stats").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("replay the turn that is shown").wait_for()
    page.keyboard.press("Escape")
    for key, title in [("t", "Turns"), ("p", "Policies"), ("l", "Ledger"), ("h", "Help")]:
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.get_by_role("heading", name=title, exact=True).first.wait_for()


def test_dark_and_light_can_be_chosen(open_page: Open, seen: See) -> None:
    page = open_page("#/", color_scheme="dark")
    page.locator(".stats").wait_for()
    colour = "getComputedStyle(document.body.parentElement).backgroundColor"
    dark = page.evaluate(colour)
    seen(page, "now-dark")
    page.keyboard.press("d")
    assert page.evaluate(colour) != dark
    page.reload()
    page.locator(".stats").wait_for()
    assert page.evaluate(colour) != dark


def test_no_page_is_wider_than_a_phone(open_page: Open, live: Running, seen: See) -> None:
    page = open_page("#/", viewport=PHONE)
    turn = f"turns/{turns(live)[0]['turn_id']}"
    for path in (
        "", "turns", turn, "sessions", "policies", "workflows", "ledger", "help", "providers",
        "cost", "keys", "learning", "receipts",
    ):  # fmt: skip
        page.goto(f"{live.url}/#/{path}")
        page.locator("main .card, main .prose, main .rows").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        if path in {"", turn}:
            seen(page, "why-phone" if path else "now-phone")


def test_a_phone_reaches_every_page_and_sees_what_matters_of_a_turn(
    open_page: Open, live: Running
) -> None:
    page = open_page("#/turns", viewport=PHONE)
    row = page.locator("tr[data-row]").first
    row.wait_for()
    edge = PHONE["width"]
    for part in ("time", ".model", ".badge"):
        box = row.locator(part).first.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= edge
    for name in ("Keys", "Receipts", "Help"):
        page.get_by_role("button", name="More").click()
        link = page.locator("nav.side").get_by_role("link", name=name)
        box = link.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= edge
        link.click()
        page.get_by_role("heading", level=1).filter(has_text=name).wait_for()


def test_an_outage_is_ended_by_its_button(open_page: Open, live: Running) -> None:
    live.parts.health.clear("house")
    for _ in range(5):
        live.providers["house"].then(*[fails(500)] * 3)
        live.chat("hello", "llama")
    page = open_page("#/providers")
    page.get_by_role("button", name="clear the outage of house:llama").click()
    page.locator(".providers li.unavailable").first.wait_for(state="detached")
    assert live.parts.health.outage_of("house:llama") is None


def test_how_models_did_is_told_for_a_span_that_a_link_keeps(open_page: Open) -> None:
    page = open_page("#/?range=7d")
    page.locator(".performance tbody tr").first.wait_for()
    assert page.get_by_label("time range").input_value() == "7d"
    page.get_by_label("time range").select_option("1h")
    page.wait_for_url("**/#/?range=1h")
    row = page.locator(".performance tbody tr").filter(has_text="claude-opus-4-7")
    row.wait_for()
    assert " ms" in row.locator(".times").first.inner_text()


def test_a_failed_turn_says_what_its_caller_was_told(open_page: Open, live: Running) -> None:
    live.providers["house"].then(*[fails(400)] * 3)
    answer = live.chat("too much for it", "llama")
    assert answer.status_code == 400
    turn_id = answer.headers["x-pointsman-turn"]
    eventually(lambda: turn_id in {each["turn_id"] for each in turns(live, state="failed")})
    page = open_page(f"#/turns/{turn_id}")
    told = page.locator(".told")
    told.wait_for()
    assert "400" in told.inner_text()
    live.parts.health.clear("house")


def test_cost_is_told_by_part_and_saved_as_csv(open_page: Open) -> None:
    page = open_page("#/cost?range=90d")
    page.locator("tbody tr").first.wait_for()
    page.get_by_role("link", name="session", exact=True).click()
    page.get_by_role("heading", name="By session").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(saved.value.path()).read_text()
    assert text.startswith("session,cost_usd,calls,input_tokens,output_tokens")
    assert len(text.splitlines()) == 1 + page.locator("tbody tr").count()


def test_a_receipt_is_saved_from_its_page(open_page: Open, live: Running) -> None:
    page = open_page("#/receipts")
    page.locator("tbody tr").first.wait_for()
    with page.expect_download() as saved:
        page.locator("tbody tr").first.get_by_role("button").click()
    assert "envelope" in (text := Path(saved.value.path()).read_text()) or '"decision' in text


def test_the_field_at_the_top_finds_a_turn_by_its_id(open_page: Open, live: Running) -> None:
    wanted = turns(live)[0]
    page = open_page("#/sessions")
    # A key that comes before the page has begun is not heard.
    page.get_by_role("heading", level=1).filter(has_text="Sessions").wait_for()
    page.keyboard.press("f")
    page.keyboard.type(wanted["decision_id"])
    page.keyboard.press("Enter")
    page.locator(".why-head").get_by_text(wanted["turn_id"]).wait_for()


def test_kinds_of_turns_that_a_policy_changes_are_told_before_it_is_saved(open_page: Open) -> None:
    page = open_page("#/policies")
    editor = page.get_by_label("the text of routing.yaml")
    editor.wait_for()
    text = editor.input_value()
    changed = text.replace("use: openai:gpt-5-mini", "use: anthropic:claude-haiku-4-5", 1)
    editor.fill(changed)
    page.get_by_role("button", name="Compare with the policy in force").click()
    page.locator(".kinds li").first.wait_for()
    assert "claude-haiku-4-5" in page.locator(".kinds").inner_text()
