"""Publications that nobody signed, or that say other than was signed, are told and not followed."""

from __future__ import annotations

from contextlib import closing

import pytest
from msgspec.structs import replace
from tests.contract.stores.machines import (
    MODELS,
    TABLE,
    Machine,
    Machines,
    routing,
)

from pointsman.kernel.canonical import content_id
from pointsman.kernel.entry import Draft
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.recording.decision_recorder import POLICY_REFUSED
from pointsman.storage.policies.publications import (
    ANNOUNCEMENT_FORM,
    PUBLICATION_FORM,
    PUBLISHED,
    Publication,
    announcement,
)
from pointsman.storage.sqlite.database import SQL, SqliteConnection
from pointsman.testing import some_facts


def forge(machine: Machine, draft: Draft, seq: int = 50_000) -> None:
    """Write a row into the database, as somebody without a key could."""
    with closing(machine.home.database.writing("schema.sql")) as connection:
        if isinstance(connection, SqliteConnection):
            # In the way of whoever writes past the ledger's writer, and gone by one word.
            connection.execute("DROP TRIGGER IF EXISTS entries_join")
        if connection.execute(SQL["find_chain"], ("forged",)).get is None:
            connection.execute(SQL["add_chain"], ("forged",))
        number = connection.execute(SQL["find_chain"], ("forged",)).get
        attached = b"".join(bytes.fromhex(content_id(b)[7:]) for b in draft.attachments)
        named = (draft.at, draft.kind, draft.id, draft.ref, draft.payload, attached)
        row = (number, seq, *named, bytes([seq % 251]) * 32, b"no hash at all")
        connection.execute(SQL["append_entry"], row)
        for place, body in enumerate(draft.attachments):
            connection.execute(SQL["append_attachment"], (number, seq, place, body))


def publication(machine: Machine, number: int, **more: object) -> Publication:
    """Give a publication like the one in force, under another number."""
    found = machine.publishing().newest_publication
    assert found is not None
    return replace(found.publication, number=number, previous=found.id, **more)


def drafts(machine: Machine, said: Publication, key: SigningKey) -> tuple[Draft, Draft]:
    """Give both entries of a publication, signed by a key."""
    made = PUBLICATION_FORM.make(said, machine.home.identity.ledger, key)
    payload = ANNOUNCEMENT_FORM.encode(announcement(made.id, said))
    return snapshot_draft(made, said.at), Draft(
        PUBLISHED, f"announced-{said.number}", "", said.at, payload
    )


def test_a_publication_that_no_key_of_the_ledger_signed_is_not_followed(
    machines: Machines,
) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.now()
    said = publication(first, 2, files={"models.yaml": MODELS})
    for number, draft in enumerate(drafts(first, said, SigningKey(b"k" * 32))):
        forge(first, draft, 50_000 + number)
    for each in (first, second, machines()):
        found = each.now()
        assert found.origin.number == 1
        (told,) = found.invalid
        assert told.name == "publication 2"
        assert "not signed by a key of this ledger" in str(found.problems[0])


def test_a_refusal_is_recorded_once_by_whoever_decides(machines: Machines) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    said = publication(first, 2)
    forge(first, drafts(first, said, first.home.signing_key())[1])
    for each in (first, second, first):
        each.now()
        each.route(some_facts())
    (entry,) = first.entries(POLICY_REFUSED)
    assert entry.ref == "announced-2"
    assert b"is not stored" in entry.payload


def test_a_forged_entry_keeps_nobody_from_publishing(machines: Machines) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    forge(first, drafts(first, publication(first, 2), SigningKey(b"k" * 32))[1])
    first.say("acme:two")
    found = second.now()
    assert (found.origin.number, found.ready.policy.global_default) == (3, "acme:two")
    assert not found.invalid


def test_an_entry_that_says_other_than_what_was_signed_is_not_followed(
    machines: Machines,
) -> None:
    machine = machines()
    old = machine.say("acme:one")
    machine.say("acme:two")
    found = machine.publishing().newest_publication
    assert found is not None
    # An older publication, truly signed, under a newer number: nobody is led back.
    said = replace(announcement(found.id, found.publication), number=9, publication_id=old)
    payload = ANNOUNCEMENT_FORM.encode(said)
    forge(machine, Draft(PUBLISHED, "back", "", found.publication.at, payload))
    assert machine.default == "acme:two"
    assert "says other than its entry" in str(machine.in_force().problems[0])
    assert machines().default == "acme:two"


def test_an_entry_that_cannot_be_read_is_told_and_passed_over(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:two")
    forge(machine, Draft(PUBLISHED, "garbled", "", machine.clock.now(), b'{"number": 2}'))
    found = machine.now()
    assert (found.origin.number, len(found.invalid)) == (1, 1)
    machine.say("acme:one")
    assert not machine.now().invalid


@pytest.mark.parametrize("part", ["policy_id", "placement_id"])
def test_a_policy_whose_bytes_were_changed_leaves_the_one_before_in_force_whole(
    machines: Machines, part: str
) -> None:
    machine = machines()
    machine.say("acme:one")
    before = machine.now()
    machine.write("placement.yaml", TABLE)
    machine.say("acme:two")
    name = getattr(machine.now(), part)
    with closing(machine.home.database.writing("schema.sql")) as connection:
        connection.execute(
            "UPDATE attachments SET body = ? WHERE chain || '/' || seq IN"
            " (SELECT chain || '/' || seq FROM entries WHERE id = ?)",
            (b"{}", name),
        )
    fresh = machines().now()
    assert fresh.origin.number == 1
    assert (fresh.policy_id, fresh.placement_id) == (before.policy_id, before.placement_id)
    assert fresh.problems
    # Who had it before it was changed keeps it, and can go on from it.
    machine.publishing().reload()
    assert machine.now().origin.number == 2
    given = machine.publishing().compile_with("routing.yaml", routing("acme:one").encode())
    machine.publish(given, "anna")
    assert machine.now().origin.number == machines().now().origin.number == 3


def test_two_that_were_signed_under_one_number_count_both_for_nothing(machines: Machines) -> None:
    machine, other = machines(), machines()
    machine.say("acme:one")
    recorder, key = machine.decision_recorder.recorder(), machine.home.signing_key()
    for by in ("anna", "berta"):
        for draft in drafts(machine, publication(machine, 2, by=by), key):
            recorder.record(draft)
    found = other.now()
    assert found.origin.number == 1
    assert "the same number" in str(found.problems[0])
    machine.now()
    machine.say("acme:two")
    assert other.now().origin.number == 3


def test_a_forged_row_does_not_hide_the_true_one_of_the_same_id(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:one")
    policy_id = machine.now().policy_id
    form: SnapshotForm[str] = SnapshotForm("turn.policy", 1, str)
    made = form.make("nothing", machine.home.identity.ledger, SigningKey(b"k" * 32))
    forge(machine, replace(snapshot_draft(made, machine.clock.now()), id=policy_id, at=0))
    assert machines().now().policy_id == policy_id


def test_a_process_never_goes_back_to_what_was_published_before(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:one")
    machine.say("acme:two")
    with closing(machine.home.database.writing("schema.sql")) as connection:
        connection.execute("DELETE FROM entries WHERE kind = ?", (PUBLISHED,))
    assert machine.default == "acme:two"
