"""Policies published in the ledger: one line of succession, followed whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.gateway.house import eventually, keeps
from tests.servers import PostgresServer

from pointsman.app import Pointsman
from pointsman.errors import (
    DocumentError,
    HomeError,
    LedgerBroken,
    LedgerUnavailable,
    NotPublishing,
    PolicyHoldsSecret,
    PolicyMoved,
)
from pointsman.kernel.canonical import content_id
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.runs.desk import POLICY_REFUSED
from pointsman.runs.publishing import LEASE
from pointsman.storage.ledger_policies import NOTHING_YET, LedgerPolicies
from pointsman.storage.policies import InForce, PolicyFiles
from pointsman.storage.publications import (
    ANNOUNCEMENT_FORM,
    PUBLICATION_FORM,
    PUBLISHED,
    Publication,
    announced,
)
from pointsman.storage.sqlite.database import SQL
from pointsman.storage.sqlite.reading import LedgerReader
from pointsman.testing import some_facts

SETTINGS = "policy: {source: ledger}\n"
MODELS = """
schema_version: 1
providers:
  acme: {kind: openai, base_url: "https://llm.example/v1", api_key: {env: ACME_KEY}}
models:
  acme:one: {location: cloud, price: {input: 3, output: 15}}
  acme:two: {location: cloud, price: {input: 1, output: 5}}
"""
TABLE = json.dumps(keeps("secret", taint="off"))


def routing(default: str = "acme:one") -> str:
    return f"schema_version: 1\nglobal_default: {default}\n"


class Machine(Pointsman):
    """A machine with files of its own; all share one ledger."""

    def write(self, name: str, text: str) -> None:
        (self.home.path / name).write_text(text)

    def say(self, default: str, by: str = "anna") -> str:
        """Publish the files with another default model."""
        self.write("routing.yaml", routing(default))
        return self.publish(self.publishing().candidate(), by).id

    def now(self) -> InForce:
        """Look, and give what is in force."""
        self.publishing().look()
        return self.in_force()

    @property
    def default(self) -> str | None:
        return self.now().ready.policy.global_default

    def entries(self, kind: str) -> list[Entry]:
        with closing(LedgerReader(self.home.database)) as reader:
            return [each.entry for each in reader.of_kind(kind)]


Machines = Callable[[], Machine]


@pytest.fixture(params=["sqlite", "postgres"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """Give machines: on PostgreSQL each has a folder of its own, on SQLite they share one."""
    url = request.getfixturevalue("store_url") if request.param == "postgres" else ""
    first = tmp_path / "m0"
    made: list[Machine] = []
    with ExitStack() as stack:

        def machine() -> Machine:
            folder = first
            if url and made:
                folder = tmp_path / f"m{len(made)}"
                folder.mkdir(mode=0o700)
                shutil.copy2(first / "identity.json", folder)
                shutil.copytree(first / "keys", folder / "keys", copy_function=shutil.copy2)
            else:
                folder.mkdir(mode=0o700, exist_ok=True)
            if not (folder / "pointsman.yaml").exists():
                (folder / "pointsman.yaml").write_text(SETTINGS)
                (folder / "models.yaml").write_text(MODELS)
                (folder / "routing.yaml").write_text(routing())
            made.append(Machine(folder, store=url))
            stack.callback(_closed, made[-1])
            return made[-1]

        yield machine


def _closed(machine: Machine) -> None:
    # Some tests take entries out of its chain, which is noticed when its end is signed.
    with suppress(LedgerBroken):
        machine.close()


def forge(machine: Machine, draft: Draft, seq: int = 50_000) -> None:
    """Write a row into the database, as somebody without a key could."""
    with closing(machine.home.database.writing("schema.sql")) as connection:
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
    found = machine.publishing().published
    assert found is not None
    return replace(found.publication, number=number, previous=found.id, **more)


def drafts(machine: Machine, said: Publication, key: SigningKey) -> tuple[Draft, Draft]:
    """Give both entries of a publication, signed by a key."""
    made = PUBLICATION_FORM.make(said, machine.home.identity.ledger, key)
    payload = ANNOUNCEMENT_FORM.encode(announced(made.id, said))
    return snapshot_draft(made, said.at), Draft(
        PUBLISHED, f"announced-{said.number}", "", said.at, payload
    )


def test_until_something_is_published_the_files_are_in_force(machines: Machines) -> None:
    machine = machines()
    found = machine.in_force()
    assert found.ready.policy.global_default == "acme:one"
    assert (found.origin.source, found.origin.notice) == ("files", NOTHING_YET)
    machine.write("routing.yaml", routing("acme:two"))
    assert machine.default == "acme:two"


def test_what_one_publishes_is_in_force_on_all_with_the_same_ids(machines: Machines) -> None:
    first, second = machines(), machines()
    first.write("placement.yaml", TABLE)
    second.in_force()
    name = first.say("acme:two")
    here, there = first.now(), second.now()
    assert there.ready.policy.global_default == "acme:two"
    assert there.placement.policy.taint == "off"
    assert (here.policy_id, here.placement_id) == (there.policy_id, there.placement_id)
    assert here.models == there.models
    origin = there.origin
    assert (origin.source, origin.number, origin.publication_id) == ("ledger", 1, name)
    assert origin.by == "anna"
    assert not there.invalid


def test_a_process_that_starts_later_follows_what_was_published(machines: Machines) -> None:
    machines().say("acme:two")
    later = machines()
    later.write("routing.yaml", routing("acme:one"))
    assert later.in_force().ready.policy.global_default == "acme:two"


def test_files_count_no_more_once_something_is_published(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:two")
    machine.write("routing.yaml", "this is: [no policy")
    found = machine.reload()
    assert found.ready.policy.global_default == "acme:two"
    assert not found.invalid
    assert machine.publishing().on_disk().invalid


def test_every_decision_names_the_policy_it_was_made_by_and_replays(machines: Machines) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.now()
    ids = {second.route(some_facts()).policy_id}
    first.say("acme:two")
    second.now()
    ids.add(second.route(some_facts()).policy_id)
    assert len(ids) == 2
    report = second.replay_all()
    assert report.identical == report.total == 2
    assert second.verify().is_intact


def test_the_same_object_is_in_force_while_nothing_changes(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:two")
    assert machine.now() is machine.now() is machine.files.lately()


def test_what_is_published_already_is_not_published_again(machines: Machines) -> None:
    machine = machines()
    machine.say("acme:two")
    again = machine.publish(machine.publishing().candidate(), "berta")
    assert (again.is_new, again.publication.by) == (False, "anna")
    assert len(machine.entries(PUBLISHED)) == 1


def test_who_publishes_second_over_the_same_is_refused_and_told_by_whom(
    machines: Machines,
) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.write("routing.yaml", routing("embedded:smollm2-135m"))
    late = second.publishing().candidate()
    if late.turns.global_default == first.default:
        pytest.fail("both would publish the same")
    first.write("models.yaml", MODELS + "  acme:three: {location: cloud}\n")
    first.say("acme:two", by="anna")
    with pytest.raises(PolicyMoved, match="publication 2 by `anna`"):
        second.publish(late, "berta")
    assert second.default == "acme:two"
    assert [ANNOUNCEMENT_FORM.decode(each.payload).number for each in
            first.entries(PUBLISHED)] == [1, 2]  # fmt: skip


def test_nobody_publishes_while_another_does(machines: Machines) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.write("routing.yaml", routing("acme:two"))
    given = second.publishing().candidate()
    lease = first.home.lease(LEASE)
    with pytest.raises(PolicyMoved, match="now"):
        second.publish(given, "berta")
    lease.release()
    assert second.publish(given, "berta").is_new


def test_of_many_at_once_one_succeeds_each_time(machines: Machines) -> None:
    crowd = [machines() for _ in range(4)]
    crowd[0].say("acme:one")
    for round_ in range(5):
        given = []
        for each in crowd:
            candidate = each.publishing().candidate()
            marked = {**candidate.texts, "routing.yaml": routing() + f"# {each.desk} {round_}\n"}
            given.append(replace(candidate, texts=marked))
        with ThreadPoolExecutor(len(crowd)) as pool:
            won = [*pool.map(_published, crowd, given)]
        assert sum(won) == 1
    numbers = [
        ANNOUNCEMENT_FORM.decode(each.payload).number for each in crowd[0].entries(PUBLISHED)
    ]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    assert len({each.now().origin.publication_id for each in crowd}) == 1


def _published(machine: Machine, given: object) -> bool:
    try:
        return machine.publish(given, "one of many").is_new  # type: ignore[arg-type]
    except PolicyMoved:
        return False


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
    found = machine.publishing().published
    assert found is not None
    # An older publication, truly signed, under a newer number: nobody is led back.
    said = replace(announced(found.id, found.publication), number=9, publication_id=old)
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
    given = machine.publishing().replaced("routing.yaml", routing("acme:one").encode())
    machine.publish(given, "anna")
    assert machine.now().origin.number == machines().now().origin.number == 3


def test_two_that_were_signed_under_one_number_count_both_for_nothing(machines: Machines) -> None:
    machine, other = machines(), machines()
    machine.say("acme:one")
    recorder, key = machine.desk.recorder(), machine.home.signing_key()
    for by in ("anna", "berta"):
        for draft in drafts(machine, publication(machine, 2, by=by), key):
            recorder.append(draft).result()
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


def test_files_that_do_not_fit_are_not_published(machines: Machines) -> None:
    machine = machines()
    machine.write("routing.yaml", routing("acme:none"))
    with pytest.raises(DocumentError, match="acme:none"):
        machine.publishing().candidate()
    assert not machine.home.database.exists() or not machine.entries(PUBLISHED)


def test_a_text_that_holds_a_secret_is_not_published(machines: Machines) -> None:
    machine = machines()
    key = "sk-ant-api03-" + "aB3dE5gH7jK9" * 7 + "-abcdefAA"
    machine.write("models.yaml", MODELS.replace(
        "kind: openai,", f'kind: openai, headers: {{x-key: "{key}"}},'))  # fmt: skip
    with pytest.raises(PolicyHoldsSecret) as refused:
        machine.publish(machine.publishing().candidate(), "anna")
    assert refused.value.where == "models.yaml:4"
    assert key not in str(refused.value)


def test_one_file_replaced_rests_on_the_others_as_published(machines: Machines) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.now()
    given = second.publishing().replaced("routing.yaml", routing("acme:two").encode())
    second.publish(given, "berta")
    assert first.default == "acme:two"
    assert first.publishing().text("models.yaml") == MODELS.encode()


def test_a_home_of_files_publishes_nothing_and_asks_no_ledger(tmp_path: Path) -> None:
    with Pointsman(tmp_path / "h") as pointsman:
        assert type(pointsman.files) is PolicyFiles
        pointsman.in_force()
        assert not pointsman.home.database.exists()
        with pytest.raises(NotPublishing):
            pointsman.publishing()


def test_settings_that_cannot_be_read_never_mean_another_source(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "pointsman.yaml").write_text("policy: {source: ledger\n")
    with pytest.raises(HomeError, match="where the policy comes from"):
        Pointsman(home)


def test_a_database_that_is_gone_leaves_the_policy_in_force_and_is_told(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        home = tmp_path / "h"
        home.mkdir(mode=0o700)
        (home / "pointsman.yaml").write_text(SETTINGS)
        (home / "models.yaml").write_text(MODELS)
        with Machine(home, store=server.fresh()) as machine:
            machine.say("acme:two")
            server.kill()
            files = machine.publishing()
            assert machine.default == "acme:two"
            assert isinstance(files, LedgerPolicies)
            assert files.trouble
            server.start()
            assert machine.default == "acme:two"
            assert not files.trouble
            eventually(lambda: _is_recorded(machine))
    finally:
        server.close()


def _is_recorded(machine: Machine) -> bool:
    with suppress(LedgerUnavailable):
        return bool(machine.route(some_facts()).decision_id)
    return False
