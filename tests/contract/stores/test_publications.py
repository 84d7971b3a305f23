"""Policies published in the ledger: one line of succession, followed whole or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.contract.stores.machines import (
    MODELS,
    SETTINGS,
    TABLE,
    Machine,
    Machines,
    routing,
)
from tests.gateway.house import eventually
from tests.servers import PostgresServer

from pointsman.app import Pointsman
from pointsman.errors import (
    DocumentError,
    HomeError,
    LedgerUnavailable,
    NotPublishing,
    PolicyHoldsSecret,
    PolicyMoved,
)
from pointsman.operations.rules.publishing import LEASE
from pointsman.storage.policies.ledger_policies import NOTHING_YET, LedgerPolicies
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.storage.policies.publications import ANNOUNCEMENT_FORM, PUBLISHED
from pointsman.testing import some_facts


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
    assert machine.now() is machine.now() is machine.files.in_force()


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


def test_a_publisher_waits_for_another_that_may_yet_fail_and_then_wins(
    machines: Machines,
) -> None:
    first, second = machines(), machines()
    first.say("acme:one")
    second.write("routing.yaml", routing("acme:two"))
    given = second.publishing().candidate()
    lease = first.home.lease(LEASE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.publish, given, "berta")
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        lease.release()
        assert waiting.result(30).is_new


def test_of_many_at_once_one_succeeds_each_time(machines: Machines) -> None:
    crowd = [machines() for _ in range(4)]
    crowd[0].say("acme:one")
    for round_ in range(5):
        given = []
        for number, each in enumerate(crowd):
            candidate = each.publishing().candidate()
            marked = {
                **candidate.texts,
                "routing.yaml": routing() + f"# {number} {round_}\n",
            }
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
    given = second.publishing().compile_with("routing.yaml", routing("acme:two").encode())
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
