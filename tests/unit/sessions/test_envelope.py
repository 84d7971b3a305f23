"""Events: a closed list, exact, private words sealed, read back as they were told."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

from pointsman.errors import IntegrityFailure
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.entry import Chain, empty_head, next_entry
from pointsman.kernel.instant import Instant
from pointsman.sessions.catalogue import CATALOGUE, Payload, catalogue_page
from pointsman.sessions.envelope import (
    Envelope,
    event_draft,
    is_event,
    opened_payload,
    read_event,
    sealed_payload,
)
from pointsman.sessions.events.calls import ToolCompleted, ToolFailed
from pointsman.sessions.events.event import Actor, Sensitivity
from pointsman.sessions.events.session import TurnStarted

KEY = b"k" * 32
CHAIN = Chain("0" * 32, "cli")


def an_event(payload: Payload) -> Envelope:
    return Envelope("e1", Instant(7), "s1", "t1", "e0", "s0", payload)


def test_every_payload_is_in_the_catalogue_under_its_own_type() -> None:
    assert set(CATALOGUE) == set(get_args(Payload))
    types = [each.type for each in CATALOGUE]
    assert len(set(types)) == len(types)
    for each in CATALOGUE:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", each.type)
        assert each.sensitivity in get_args(Sensitivity)
        assert each.actor in get_args(Actor)


def test_words_are_fields_that_can_be_sealed() -> None:
    for each in CATALOGUE:
        fields = {field.name: str(field.type) for field in msgspec.structs.fields(each)}
        for name in each.words:
            assert "Sealed" in fields[name], f"{each.type}.{name}"
        for name, kind in fields.items():
            assert ("Sealed" in kind) is (name in each.words), f"{each.type}.{name}"


def test_an_event_is_read_back_as_it_was_told() -> None:
    told = ToolCompleted("tu", True, 5, 9, ("a.py", "b.py"), "rm -rf x")
    kept: dict[str, str] = {}

    def seal(text: str) -> Sealed:
        found = seal_text(text, KEY)
        kept[found.digest] = text
        return found

    bare = sealed_payload(told, seal)
    draft = event_draft(an_event(bare))
    assert draft.kind == "event.tool.completed"
    assert (draft.id, draft.ref) == ("e1", "s1")
    assert b"rm -rf" not in draft.payload
    assert b"a.py" not in draft.payload
    entry = next_entry(CHAIN, empty_head(CHAIN), draft)
    assert is_event(entry)
    found = read_event(entry)
    assert found == an_event(bare)
    assert opened_payload(found.payload, lambda text: kept[text.digest]) == told


def test_what_has_no_words_is_left_as_it_is() -> None:
    failed = ToolFailed("tu", "timeout", "no", 1)
    assert sealed_payload(failed, lambda text: seal_text(text, KEY)) != failed
    seal = seal_text("x", KEY)
    started = TurnStarted(seal, 1, False, False)
    assert sealed_payload(started, lambda text: seal_text(text, KEY)) == started


def test_other_entries_are_no_events() -> None:
    draft = event_draft(an_event(ToolFailed("tu", "timeout", seal_text("x", KEY), 1)))
    other = next_entry(CHAIN, empty_head(CHAIN), msgspec.structs.replace(draft, kind="event.other"))
    assert not is_event(other)
    with pytest.raises(IntegrityFailure):
        read_event(other)


def test_the_published_page_names_every_event_and_field() -> None:
    page = catalogue_page()
    for each in CATALOGUE:
        assert f"`{each.type}`" in page
        for field in each.__struct_fields__:
            assert f"`{field}`" in page
