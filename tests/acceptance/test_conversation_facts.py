"""What routing looks at in a conversation, and what it suggests."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    MINI,
    OPUS,
    PICTURE,
    ROUTING,
    SONNET,
    Bench,
    a_parlour,
    over,
    replays,
    said,
)
from tests.gateway.house import entries, facts_of

from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.conversations.services import Kit
from pointsman.errors import InputError
from pointsman.kernel.instant import SECOND, Instant
from pointsman.kernel.number import ONE, MicroUsd
from pointsman.recording.health import HomeHealth
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.session import FeedbackExplicit
from pointsman.sessions.update import (
    ChooseRoute,
    TextDelta,
    Update,
)
from pointsman.storage.sqlite.place import SqlitePlace
from pointsman.storage.stores.health import HealthStore
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.turn_index import Wanted
from pointsman.testing import FrozenClock, calls, fails, says
from pointsman.turns.facts import CallerFacts
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of, hashed_vector
from pointsman.turns.registry.provider_state import Thresholds

pytestmark = pytest.mark.anyio


async def test_verdicts_are_told_kept_and_learned_at_the_end(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "fix the bug")
        await conversation.feedback("thumbs_up", "well done")
        await said(conversation, "now something else entirely")
        await conversation.end()
        types = parlour.types(conversation.id)
        assert types[-3:] == ["session.ended", "pattern.recorded", "pattern.recorded"]
        events = parlour.conversations.events(conversation.id, words=True)
        explicit = [
            each.payload
            for each in events
            if isinstance(each, Envelope) and isinstance(each.payload, FeedbackExplicit)
        ]
        assert explicit[0].comment == "well done"
        store = PatternStore(tmp_path / "h" / "patterns.db")
        total = {each.model: each for each in store.report()}[OPUS]
        store.close()
        assert (total.samples, total.judged, total.mean_success) == (2, 1, 1_000_000_000)
        await conversation.feedback("thumbs_down")
        store = PatternStore(tmp_path / "h" / "patterns.db")
        assert {each.model: each for each in store.report()}[OPUS].mean_success == 500_000_000
        store.close()


PATTERNED: dict[str, Any] = {
    **ROUTING,
    "rules": [{"name": "commits", "when": {"message_matches": "^/commit"}, "use": HAIKU}],
    "pattern": {"mode": "apply"},
    "pattern_disagreement": {"surface": True, "min_confidence": "0.05", "min_sample_size": 5},
}


def learn(home: Path, text: str, model: str, tokens: int, workspace: str | None = None) -> None:
    """Put turns into the pattern store that looked like the one to come."""
    around = Surroundings(estimated_input_tokens=tokens, workspace_path=workspace)
    store = PatternStore(home / "patterns.db")
    for number in range(6):
        store.record(
            fingerprint_of(text, around),
            hashed_vector(text),
            model=model,
            turn_id=f"earlier {model} {number}",
            cost_microusd=MicroUsd(10),
            latency_ms=1,
            pricing_version="v",
            at=Instant(1_794_805_465_074_354),
        )
        store.update_score(f"earlier {model} {number}", ONE, ONE, f"{model} {number}")
    store.close()


@pytest.mark.parametrize(("share", "marked"), [("1", {"explored": 1}), ("0", {})])
async def test_a_turn_sent_to_the_runner_up_is_marked_when_it_is_learned(
    tmp_path: Path, share: str, marked: dict[str, int]
) -> None:
    # The default had its first tries: nothing but the runner-up is left to explore.
    explore = {"share": share, "first": 6}
    pattern = {
        "method": "evidence",
        "explore": explore,
        "min_confidence": "0",
        "min_sample_size": 1,
    }
    routing = {**ROUTING, "pattern": pattern}
    async with a_parlour(tmp_path / "h", says("done"), routing=routing) as parlour:
        learn(tmp_path / "h", "something else entirely", OPUS, 200)
        for model in (HAIKU, SONNET):
            learn(tmp_path / "h", "sort it", model, 200)
        conversation = await parlour.conversations.start()
        taken = over(await said(conversation, "sort it")).model
        await conversation.end()
        store = PatternStore(tmp_path / "h" / "patterns.db")
        assert store.origins() == marked
        assert {each.model: each.samples for each in store.report()}[taken] == 7
        store.close()
        replays(parlour)


@pytest.mark.req(198, 199, 285)
@pytest.mark.parametrize(
    ("answer", "model", "event"),
    [
        ("override", SONNET, "route.overridden"),
        ("ignore", HAIKU, "pattern.override_dismissed"),
    ],
)
async def test_a_suggestion_is_offered_and_taken_or_dismissed(
    tmp_path: Path, answer: Any, model: str, event: str
) -> None:
    async with a_parlour(tmp_path / "h", says("done"), routing=PATTERNED) as parlour:
        learn(tmp_path / "h", "/commit it", SONNET, 200)
        conversation = await parlour.conversations.start(kit=Kit(is_interactive=True))
        offered: list[ChooseRoute] = []
        found: list[Update] = []
        async for update in conversation.send("/commit it"):
            found.append(update)
            if isinstance(update, ChooseRoute):
                offered.append(update)
                conversation.choose_route(answer)
            if isinstance(update, TextDelta):
                with pytest.raises(InputError, match="nothing to choose"):
                    conversation.choose_route("override")
        assert [(each.chosen, each.suggested) for each in offered] == [(HAIKU, SONNET)]
        assert "/route override" in offered[0].text
        assert over(found).model == model
        story = parlour.pointsman.read_turn(over(found).turn_id)
        assert (story.first.outcome.chosen_model, story.served_model) == (HAIKU, model)
        assert [each.kind for each in story.later] == ["override"] * (answer == "override")
        assert story.state == "done"
        with closing(TurnCatalog(parlour.pointsman.home)) as catalog:
            (row,) = catalog.look()[0].turns(Wanted(), 10)
        assert (row.state, row.served, row.calls, row.fallbacks) == ("done", model, 1, 0)
        types = parlour.types(conversation.id)
        assert event in types
        assert types.count("route.decided") == 1
        assert types.index(event) < types.index("llm.call_started")
        replays(parlour)


@pytest.mark.req(166, 168, 169)
async def test_rules_read_the_new_message_and_nothing_said_before(tmp_path: Path) -> None:
    rules = [
        {"name": "words", "when": {"message_contains_any": ["architecture"]}, "use": SONNET},
        {"name": "pictures", "when": {"has_images": True}, "use": SONNET},
        {"name": "tools", "when": {"has_tool_calls_in_history": True}, "use": HAIKU},
    ]
    script = (says("architecture it is"), calls(("look", {})), says("seen"), says("done"))
    async with a_parlour(tmp_path / "h", *script, routing={**ROUTING, "rules": rules}) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(Bench()))
        assert over(await said(conversation, "the architecture", PICTURE)).model == SONNET
        assert over(await said(conversation, "look at it")).model == OPUS
        assert over(await said(conversation, "and now")).model == HAIKU


async def test_rules_see_the_tools_of_a_conversation_and_that_the_home_calls(
    tmp_path: Path,
) -> None:
    rules = [
        {"name": "looking", "when": {"tool_names_include": "look"}, "use": SONNET},
        {"name": "home", "when": {"agent_is": "Pointsman"}, "use": HAIKU},
    ]
    script = (says("one"), says("two"))
    async with a_parlour(tmp_path / "h", *script, routing={**ROUTING, "rules": rules}) as parlour:
        bare = await parlour.conversations.start()
        assert over(await said(bare, "hi")).model == HAIKU
        laid_out = await parlour.conversations.start(kit=Kit(Bench()))
        turn = over(await said(laid_out, "hi"))
        assert turn.model == SONNET
        facts = facts_of(tmp_path / "h", parlour.pointsman.shown(turn.turn_id).decision_id)
        assert facts.caller == CallerFacts(agent="pointsman")
        assert "look" in facts.tool_names
        replays(parlour)


@pytest.mark.req(167)
async def test_the_estimate_counts_the_system_prompt_and_the_tools(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        bare = await parlour.conversations.start()
        laid_out = await parlour.conversations.start(kit=Kit(Bench()))
        counts = []
        for conversation in (bare, laid_out):
            turn_id = over(await said(conversation, "hi")).turn_id
            facts = facts_of(tmp_path / "h", parlour.pointsman.shown(turn_id).decision_id)
            counts.append(facts.tokens_for(OPUS))
            assert facts.has_system_prompt
        assert 30 < counts[0] < counts[1]


@pytest.mark.req(172)
async def test_the_workspace_of_a_session_never_changes(tmp_path: Path) -> None:
    places = {str(tmp_path): {"default": SONNET}}
    async with a_parlour(
        tmp_path / "h", says("one"), routing={**ROUTING, "workspaces": places}
    ) as parlour:
        conversation = await parlour.conversations.start(tmp_path)
        assert over(await said(conversation, "hi")).model == SONNET
        again = await parlour.conversations.resume(conversation.id)
        assert again.workspace == str(tmp_path)


@pytest.mark.req(251)
async def test_a_broken_rules_file_is_told_once_beside_the_turns(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "hi")
        (tmp_path / "h" / "routing.yaml").write_text("schema_version: 1\nrules: [{}]\n")
        assert over(await said(conversation, "still there?")).model == OPUS
        kinds = [each.kind for each in entries(tmp_path / "h", "event.routing.policy_invalid")]
        assert len(kinds) == 1


def unreached(home: Path, now: Instant) -> None:
    """Have another process of the home not reach a provider, half a minute ago."""
    store = HealthStore(SqlitePlace(home / "health.db"))
    another = HomeHealth(FrozenClock(Instant(now - 30 * SECOND)), store, "another")
    for _ in range(2):
        another.note_call_end(MINI, "network", ())
    another.close()


EARLY: dict[str, Any] = {
    "routing": {**ROUTING, "rules": [{"name": "all", "when": {}, "use": MINI}]},
    "pointsman": {"availability": {"probe_after_s": 20}},
}


async def test_a_turn_may_try_what_is_out_unless_another_process_does(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with a_parlour(home, says("from opus"), openai=(says("back"),), **EARLY) as parlour:
        clock = parlour.pointsman.clock
        unreached(home, clock.now())
        store = HealthStore(SqlitePlace(home / "health.db"))
        trying = HomeHealth(clock, store, "trying", Thresholds(probe_after_s=20))
        assert trying.claim(MINI)
        conversation = await parlour.conversations.start()
        assert over(await said(conversation, "hello")).model == OPUS
        trying.note_call_end(MINI, "cancelled", ())
        assert over(await said(conversation, "hello again")).model == MINI
        found = [facts_of(home, each.id).availability for each in entries(home, "decision.turn")]
        assert found == [{"openai": "unavailable"}, {"openai": "half_open"}]
        assert trying.now() == {}
        replays(parlour)
        trying.close()


async def test_of_turns_that_begin_together_one_tries_what_is_out(tmp_path: Path) -> None:
    """All were gathered before the first was decided: each found it half open."""
    home, replies = tmp_path / "h", [says("from opus")] * 4
    async with a_parlour(home, *replies, openai=(fails(503),) * 12, **EARLY) as parlour:
        unreached(home, parlour.pointsman.clock.now())
        sessions = [await parlour.conversations.start() for _ in range(4)]
        ends = await asyncio.gather(*(said(each, "hello") for each in sessions))
        assert {over(each).model for each in ends} == {OPUS}
        # One call, with the retries inside it.
        assert len(parlour.openai.requests) == 3
        found = [facts_of(home, each.id).availability for each in entries(home, "decision.turn")]
        assert found.count({"openai": "half_open"}) == 2  # and the fallback of the same turn
        assert found.count({"openai": "unavailable"}) == 3
