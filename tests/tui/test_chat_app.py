"""The terminal app: what is typed, what is shown, and what happens in between."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.parlour import HAIKU, MINI, OPUS, ROUTING, SONNET
from tests.gateway.house import breaks_off, stalls
from tests.tui.booth import a_booth
from textual.geometry import Offset

from pointsman.kernel.instant import DAY, SECOND
from pointsman.sessions.envelope import Envelope
from pointsman.testing import fails, says
from pointsman.tui.transcript import MOST_DRAWN

pytestmark = pytest.mark.anyio

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_answer_is_shown_with_its_model_reason_cost_and_time(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("**Paris** is the capital."), frozen=True) as booth:
        view = await booth.says("What is the capital of France?")
        assert str(view.route_line) == f"{OPUS} · global default · $0.000285 · 0.0 s"
        assert "Paris is the capital." in booth.screen
        assert "**" not in booth.screen
        assert f"auto · {OPUS}   $0.000285" in booth.screen


async def test_what_a_model_says_cannot_move_the_cursor(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("a\x1b[2Jb\u202ec\r\nd [bold]e[/bold]")) as booth:
        await booth.says("hi\x1b[2J")
        assert "\x1b" not in booth.screen
        assert r"a\u001b[2Jb\u202ec" in booth.screen
        assert "[bold]e[/bold]" in booth.screen


async def test_a_long_answer_stays_at_its_end_until_somebody_scrolls(tmp_path: Path) -> None:
    text = "\n\n".join(f"line {number}" for number in range(200))
    async with a_booth(tmp_path, says(text)) as booth:
        await booth.says("count")
        assert "line 199" in booth.screen
        await booth.pilot.press("pageup", "pageup")
        await booth.pilot.pause()
        assert "line 199" not in booth.screen


async def test_a_short_conversation_begins_at_the_top(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("hello")) as booth:
        await booth.says("hi")
        assert "hi" in booth.screen.splitlines()[1]


@pytest.mark.req(258)
async def test_an_override_beats_the_sticky_model_and_leaves_it(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one"), says("two")) as booth:
        await booth.command("/model haiku")
        view = await booth.says("@sonnet what is this?")
        assert str(view.route_line).startswith(f"{SONNET} · @ override · ")
        view = await booth.says("and now?")
        assert str(view.route_line).startswith(f"{HAIKU} · sticky model · ")


async def test_an_unknown_alias_starts_no_turn_and_gives_the_message_back(tmp_path: Path) -> None:
    async with a_booth(tmp_path) as booth:
        await booth.says("@nobody hello")
        assert "`@nobody` names no model" in booth.screen
        assert booth.app.composer.text == "@nobody hello"
        assert not booth.anthropic.requests


@pytest.mark.req(283)
async def test_with_every_provider_down_the_user_is_told_why(tmp_path: Path) -> None:
    async with a_booth(tmp_path, fails(401), size=(120, 30)) as booth:
        view = await booth.says("hi")
        assert view.route_line.state == "failed"
        view = await booth.says("hello?")
        assert "No model available for this turn" in booth.screen
        assert "anthropic provider currently unavailable" in booth.screen
        assert view.route_line.state == "no model"
        told = await booth.command("/model show")
        assert "Chose: no model" in told


@pytest.mark.req(151, 152)
async def test_a_banner_of_an_outage_goes_when_the_provider_is_back(tmp_path: Path) -> None:
    rules = [{"name": "deep", "when": {"message_matches": "."}, "use": OPUS}]
    routing = {**ROUTING, "global_default": MINI, "rules": rules}
    async with a_booth(
        tmp_path,
        fails(401),
        openai=(says("from mini"), says("again")),
        files={"routing": routing},
        frozen=True,
    ) as booth:
        view = await booth.says("hi")
        assert str(view.route_line).startswith(f"{MINI} · global default, took over · ")
        await booth.says("something else entirely")
        told = f"anthropic provider currently unavailable. Routing fell through to {MINI} (global"
        assert [text[: len(told)] for text in booth.app.banners.texts] == [told]
        table = await booth.command("/providers")
        assert "key refused" in table
        assert "in 5 min" in table
        booth.app._pointsman.clock.advance(seconds=301)
        await booth.app._refresh_status()
        assert booth.app.banners.texts == []


@pytest.mark.req(185)
async def test_a_budget_banner_shows_limit_spend_and_rule_until_midnight(tmp_path: Path) -> None:
    rules = [{"name": "cap", "when": {"cost_today_exceeds_usd": "0.0001"}, "use": HAIKU}]
    async with a_booth(
        tmp_path,
        says("one"),
        says("two"),
        files={"routing": {**ROUTING, "rules": rules}},
        frozen=True,
    ) as booth:
        await booth.says("hi")
        await booth.says("what else is there?")
        assert booth.app.banners.texts == [
            'Daily budget $0.0001 exceeded ($0.000285 today). Routing per "cap" rule.'
        ]
        booth.app._pointsman.clock.advance(seconds=DAY // SECOND)
        await booth.app._refresh_status()
        assert booth.app.banners.texts == []


@pytest.mark.req(279)
async def test_a_rule_edited_in_mid_session_counts_and_a_broken_one_is_told(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one"), says("two"), says("three")) as booth:
        await booth.says("hi")
        rules = [{"when": {"message_matches": "second"}, "use": SONNET}]
        path = tmp_path / "routing.yaml"
        path.write_text(yaml.safe_dump({**ROUTING, "rules": rules}))
        view = await booth.says("the second thing")
        assert str(view.route_line).startswith(f'{SONNET} · rule "rule_0" · ')
        path.write_text("schema_version: 1\nrules: [{}]\n")
        view = await booth.says("the second thing once more")
        assert view.route_line.model == SONNET
        told = "routing.yaml cannot be used: its last good version is in force. See /rules check."
        assert booth.app.banners.texts == [told]
        assert "routing.yaml:2" in await booth.command("/rules check")
        path.write_text(yaml.safe_dump(ROUTING))
        await booth.command("/rules reload")
        assert booth.app.banners.texts == []


async def test_a_stream_that_breaks_off_leaves_what_was_said_and_says_so(tmp_path: Path) -> None:
    script = (breaks_off("a long story of rails and points", "reset"), says("fine again"))
    async with a_booth(tmp_path, *script) as booth:
        view = await booth.says("tell me")
        assert view.route_line.state == "failed"
        assert "a long story" in booth.screen
        assert "broke the connection" in booth.screen
        view = await booth.says("something new")
        assert view.route_line.state == ""
        assert "fine again" in booth.screen


@pytest.mark.req(114, 115, 265, 278, 302)
async def test_of_several_swaps_in_a_turn_the_last_waits_under_a_banner(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story"), says("two")) as booth:
        await booth.types("go on")
        await booth.until(lambda: "a long" in booth.screen)
        await booth.command("/model haiku")
        await booth.command("/model sonnet")
        pending = f"Model swap pending: {SONNET}. Applies to next turn."
        assert booth.app.banners.texts == [pending]
        await booth.until(lambda: f"⇢ {SONNET}" in booth.screen)
        await booth.pilot.press("escape")
        await booth.idle()
        assert booth.last.route_line.model == OPUS
        view = await booth.says("and then?")
        assert str(view.route_line).startswith(f"{SONNET} · sticky model")
        assert booth.app.banners.texts == []


async def test_a_second_message_waits_in_the_composer_while_a_turn_runs(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story")) as booth:
        await booth.types("go on")
        await booth.until(lambda: booth.conversation.is_busy)
        await booth.types("and this?")
        await booth.pilot.pause()
        assert booth.app.composer.text == "and this?"
        assert len(booth.app.transcript.turns) == 1


async def test_what_was_sent_comes_back_with_the_arrows(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("1"), says("2")) as booth:
        await booth.says("the first")
        await booth.says("the second thing")
        booth.app.composer.set_text("a draft")
        await booth.pilot.press("up")
        assert booth.app.composer.text == "the second thing"
        await booth.pilot.press("up", "up")
        assert booth.app.composer.text == "the first"
        await booth.pilot.press("down", "down")
        assert booth.app.composer.text == "a draft"


async def test_a_message_of_several_lines_is_written_pasted_and_sent(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("ok")) as booth:
        await booth.pilot.press("a", "ctrl+j", "b")
        assert booth.app.composer.text == "a\nb"
        booth.app.composer.insert("\nc\nd")
        await booth.pilot.pause()
        assert booth.app.composer.size.height == 4
        await booth.pilot.press("enter")
        await booth.until(lambda: booth.is_idle)
        assert booth.conversation.history[0].text == "a\nb\nc\nd"
        assert booth.app.composer.size.height == 1


async def test_tab_completes_commands_models_and_aliases(tmp_path: Path) -> None:
    async with a_booth(tmp_path) as booth:
        await booth.pilot.press("/", "m", "o", "tab")
        assert booth.app.composer.text == "/model"
        await booth.pilot.press("space", "h", "a", "tab")
        assert booth.app.composer.text == "/model haiku"
        booth.app.composer.set_text("")
        await booth.pilot.press("@", "s", "o", "tab")
        assert booth.app.composer.text == "@sonnet "


async def test_the_list_of_commands_is_for_arrows_and_the_mouse_too(tmp_path: Path) -> None:
    async with a_booth(tmp_path) as booth:
        await booth.pilot.press("/", "r")
        await booth.pilot.pause()
        assert booth.app.suggestions._found == ("/route", "/rules")
        await booth.pilot.press("down", "down", "enter")
        assert booth.app.composer.text == "/rules"
        booth.app.composer.set_text("/rules ")
        await booth.pilot.pause()
        assert await booth.pilot.click(booth.app.suggestions, offset=(4, 2))
        await booth.until(lambda: booth.app.composer.text == "/rules show")
        await booth.pilot.press("escape")
        assert booth.app.suggestions._found == ()


async def test_pictures_go_with_the_next_message(tmp_path: Path) -> None:
    (tmp_path / "a pixel.png").write_bytes(PIXEL)
    async with a_booth(tmp_path / "h", says("one pixel"), workspace=tmp_path) as booth:
        booth.app.composer.set_text("/image a")
        await booth.pilot.pause()
        await booth.pilot.press("tab")
        assert booth.app.composer.text == "/image a pixel.png"
        told = await booth.command("/image a pixel.png")
        assert told == "1 picture will go with the next message"
        await booth.says("what is it?")
        assert "image/png" in str(booth.anthropic.requests[0].json)
        assert "what is it?  [1 picture]" in booth.screen
        assert "is no picture" in await booth.command(f"/image {tmp_path / 'h' / 'routing.yaml'}")


async def test_the_screen_keeps_working_at_any_size(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story of rails"), says("ok")) as booth:
        await booth.types("tell")
        await booth.until(lambda: "a long" in booth.screen)
        for width, height in ((120, 40), (40, 12), (20, 6), (80, 24)):
            await booth.pilot.resize_terminal(width, height)
            await booth.pilot.pause()
            assert booth.app.composer.region.bottom <= height
        assert "a long s" in booth.screen
        await booth.pilot.press("escape")
        await booth.idle()
        assert (await booth.says("still there, are you?")).route_line.state == ""


async def test_light_and_dark_are_one_key_apart_and_other_themes_work(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("hi")) as booth:
        assert booth.app.current_theme.dark
        await booth.pilot.press("f4")
        assert not booth.app.current_theme.dark
        assert await booth.command("/theme dark") == "dark it is"
        assert booth.app.current_theme.dark
        booth.app.theme = "textual-light"
        await booth.says("hello")
        assert "hi" in booth.screen


async def test_a_click_on_the_line_of_a_turn_tells_why(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one")) as booth:
        view = await booth.says("hi")
        label = view.query_one(".route")
        assert await booth.pilot.click(offset=Offset(label.region.x + 4, label.region.y))
        await booth.until(lambda: booth.app.transcript.reports)
        assert f"Turn {view.turn_id}" in booth.app.transcript.reports[0].text


async def test_a_session_is_resumed_as_it_looked(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("it is *four*")) as booth:
        await booth.says("what is two and two?")
        name = booth.conversation.id
        await booth.conversation.end()
    async with a_booth(tmp_path, says("five"), resume=name) as booth:
        await booth.until(lambda: "it is four" in booth.screen)
        assert f"{OPUS} · default · $0.000285" in booth.screen
        assert booth.app.top.status.cost == "$0.000285"
        await booth.pilot.press("up")
        assert booth.app.composer.text == "what is two and two?"
        await booth.says("and one more?")
        assert "two and two" in str(booth.anthropic.requests[0].json)


@pytest.mark.slow
async def test_a_session_of_many_turns_keeps_the_screen_small(tmp_path: Path) -> None:
    async with a_booth(tmp_path) as booth:
        for number in range(60):
            await booth.says(f"message {number} of a long day about something {number * 7919}")
        assert len(booth.app.transcript.turns) == MOST_DRAWN
        assert "40 earlier turns" in str(booth.app.transcript._earlier.render())
        first = booth.app.transcript.turns[0].turn_id
        booth.app.transcript._earlier.post_message(booth.app.transcript._earlier.ShowRequested())
        await booth.until(lambda: booth.app.transcript.turns[0].turn_id != first)
        await booth.until(lambda: len(booth.app.transcript.turns) == 30)
        earlier = booth.app.transcript._earlier
        await booth.until(lambda: "30 earlier turns" in str(earlier.render()))


async def test_leaving_ends_the_session_and_tells_what_failed(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story")) as booth:
        await booth.types("go on")
        await booth.until(lambda: "a long" in booth.screen)
        await booth.pilot.press("ctrl+c")
        await booth.idle()
        assert booth.last.route_line.state == "cancelled"
        await booth.pilot.press("ctrl+c")
        await booth.until(lambda: booth.app.return_code is not None)
        assert booth.app.return_code == 0
        assert booth.events[-2:] == ["session.ended", "pattern.recorded"] or (
            booth.events[-1] == "session.ended"
        )


async def test_hanging_up_says_that_the_terminal_went_away(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story")) as booth:
        await booth.types("go on")
        await booth.until(lambda: "a long" in booth.screen)
        await booth.app.leave("abandoned", "client_disconnect")
        await booth.until(lambda: booth.app.return_code is not None)
        events: list[Any] = booth.app.conversations.events(booth.conversation.id)  # type: ignore[union-attr]
        told = {each.type: each.payload for each in events if isinstance(each, Envelope)}
        assert told["turn.cancelled"].reason == "client_disconnect"
        assert told["session.ended"].disposition == "abandoned"


async def test_an_empty_screen_says_who_can_answer_until_something_is_said(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("hello")) as booth:
        await booth.until(lambda: "Ready: " in booth.screen)
        assert HAIKU in booth.screen
        assert "and 3 more" in booth.screen
        await booth.says("hi")
        assert "Ready: " not in booth.screen


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_a_why_screen_is_as_wide_as_the_terminal_and_cuts_nothing(
    tmp_path: Path, width: int
) -> None:
    name = "a rule " + "with a long name " * 6
    rules = [{"name": name, "when": {"message_matches": "hi"}, "use": SONNET}]
    files = {"routing": {**ROUTING, "rules": rules}}
    async with a_booth(tmp_path, says("hello"), files=files, size=(width, 40)) as booth:
        await booth.says("hi")
        why = await booth.command("/model show")
        lines = why.splitlines()
        assert "with a long name " * 6 in " ".join(why.split())
        wide = max(map(len, lines))
        assert wide <= width
        assert wide > 80 or width <= 80
        assert booth.app._report_width == {60: 60, 80: 80, 120: 119}[width]
        for line in lines:
            assert not line.strip() or line.rstrip() in booth.screen


async def test_a_why_screen_fits_into_eighty_columns(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("hello"), size=(80, 24)) as booth:
        await booth.says("hi")
        why = await booth.command("/model show")
        ids = [line for line in why.splitlines() if line.startswith("policy ")]
        assert len(ids[0]) == 80
        assert ids[0] in booth.screen
