"""A signing key that was replaced counts for what was recorded then, and for nothing later."""

from __future__ import annotations

import io
import itertools
import json
import multiprocessing
import os
import shutil
from contextlib import ExitStack, closing

import msgspec
import pytest
from small_ledger import FORM, START, Weights, draft, fill, opened_writer

from pointsman.audit.export import Period, export_bundle
from pointsman.audit.verify import verify_ledger
from pointsman.errors import ChainHeld, ForeignKey, HomeError, InputError, IntegrityFailure
from pointsman.kernel.checkpoint import read_checkpoint
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.rotation import ROTATED, rotate_key
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import snapshot_draft
from pointsman.kernel.verification import FaultCode
from pointsman.offline_verifier import Unusable, audit
from pointsman.operations.signing_keys import rotate_signing_key
from pointsman.recording.recorder import Recorder
from pointsman.storage.home import Home, open_home
from pointsman.storage.policies.publications import load_snapshot
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.ledger import LedgerWriter

AT = Instant(START + 1_000)
NEW, NEWEST = bytes([7] * 32), bytes([8] * 32)
OPENING = Draft("ledger.opened", "open", "", Instant(START), b"{}")


@pytest.fixture
def home(tmp_path):
    """Two chains under a key that was replaced, one of them written on."""
    home = open_home(tmp_path / "home")
    fill(home, "cli", [draft(number) for number in range(5)])
    fill(home, "web", [draft(number) for number in range(3)])
    return home


def old_key(home):
    return SigningKey(bytes.fromhex((home.path / "keys" / "signing").read_text().strip()))


def forging_writer(home, name, old):
    """Open a chain as someone who kept the old key, the database and the checkpoints' folder."""
    place = WritePlace(home.database, home.checkpoints, sync="OFF")
    chain = Chain(home.identity.ledger, name)
    return LedgerWriter(place, chain, old, OPENING, older_keys=home.keys[1:])


def codes(home):
    return {fault.code for fault in verify_ledger(Home(home.path)).faults}


def bundle_of(home, tmp_path, *period):
    return export_bundle(Home(home.path), tmp_path / "b", *period).path.read_bytes()


def checked(data, expected=""):
    return audit(io.BytesIO(data), expected)


def test_old_records_stay_proved_and_new_ones_are_signed_by_the_new_key(home):
    before = home.keys[0]
    found = rotate_signing_key(home, NEW, AT)
    assert found.chains == {"cli": 6, "web": 4}
    assert (found.old_key_id, found.new_key_id) == (before.id, SigningKey(NEW).id)
    again = Home(home.path)
    fill(again, "cli", [draft(9)])
    report = verify_ledger(again)
    assert report.is_intact
    assert not report.doubts
    assert {each.chain: each.entries for each in report.chains} == {"cli": 8, "web": 5}
    assert (home.path / "keys" / "signing").read_text().strip() == NEW.hex()
    for name, end in found.chains.items():
        texts = again.notes.of(Chain(again.identity.ledger, name)).texts()[0]
        chain = Chain(again.identity.ledger, name)
        for text in texts:
            by_new = read_checkpoint(chain, text, again.keys).size > end
            read_checkpoint(chain, text, [again.keys[-1] if by_new else before])


def test_each_chain_says_once_from_where_on_another_key_signs(home):
    rotate_signing_key(home, NEW, AT)
    fill(Home(home.path), "cli", [draft(9)])
    rotate_signing_key(Home(home.path), NEWEST, AT)
    with closing(LedgerReader(home.database)) as reader:
        names = {number: name for name, number in reader.chains().items()}
        told = [
            (names[each.chain], each.entry.seq, each.entry.id) for each in reader.of_kind(ROTATED)
        ]
    first, second = SigningKey(NEW).id, SigningKey(NEWEST).id
    assert sorted(told) == [("cli", 6, first), ("cli", 8, second),
                            ("web", 4, first), ("web", 5, second)]  # fmt: skip
    assert verify_ledger(Home(home.path)).is_intact


@pytest.mark.parametrize("name", ["cli", "web", "mine"])
def test_what_the_old_key_signs_afterwards_is_found(home, name):
    old = old_key(home)
    rotate_signing_key(home, NEW, AT)
    assert not codes(home)
    writer = forging_writer(home, name, old)
    writer.append(draft(77)).result()
    writer.close()
    assert codes(home) & {FaultCode.CHECKPOINT_BROKEN, FaultCode.END_CHANGED}


def test_a_stamp_of_the_old_key_alone_is_found(home):
    old = old_key(home)
    rotate_signing_key(home, NEW, AT)
    writer = forging_writer(home, "cli", old)
    writer.append(draft(77)).result()
    notes = home.path / "checkpoints" / "cli" / "notes"
    kept = notes.read_bytes()
    writer.close()
    notes.write_bytes(kept)
    assert codes(home) & {FaultCode.CHECKPOINT_MISSING, FaultCode.END_CHANGED}


def test_a_snapshot_of_the_old_key_counts_only_where_it_stood(home):
    old, ledger = old_key(home), home.identity.ledger
    made = [FORM.make(Weights(name, 1), ledger, old) for name in ("true", "forged")]
    fill(home, "cli", [snapshot_draft(made[0], AT)])
    rotate_signing_key(home, NEW, AT)
    fill(Home(home.path), "cli", [snapshot_draft(made[1], AT)])
    assert codes(home) == {FaultCode.SNAPSHOT_FORGED}
    keys = Home(home.path).keys
    with closing(LedgerReader(home.database)) as reader:
        assert load_snapshot(reader, FORM, made[0].id, ledger, keys).name == "true"
        with pytest.raises(IntegrityFailure):
            load_snapshot(reader, FORM, made[1].id, ledger, keys)


def test_the_identity_of_before_makes_no_ledger_of_now(home):
    kept = (home.path / "identity.json").read_bytes()
    rotate_signing_key(home, NEW, AT)
    (home.path / "identity.json").write_bytes(kept)
    assert FaultCode.KEY_FOREIGN in codes(home)
    assert FaultCode.CHECKPOINT_BROKEN in codes(home)
    with pytest.raises(ForeignKey):
        Home(home.path).signing_key()


def test_a_home_that_missed_the_rotation_writes_nothing(home):
    kept = [(path, path.read_bytes()) for path in
            (home.path / "identity.json", home.path / "keys" / "signing")]  # fmt: skip
    rotate_signing_key(home, NEW, AT)
    for path, data in kept:
        path.write_bytes(data)
    with pytest.raises(ForeignKey, match="which this home does not know"):
        Recorder(Home(home.path), "other", OPENING)


def forged(home, how):
    """Change the rotations of a home as someone who writes its files, but holds no key."""
    path = home.path / "identity.json"
    known = msgspec.json.decode(path.read_bytes())
    rotation = known["rotations"][0]
    mine = SigningKey(bytes([5] * 32))
    if how == "another key":
        known["keys"][1] = rotation["new"] = mine.public.hex()
    elif how == "one more key":
        known["keys"].append(mine.public.hex())
    elif how == "one more rotation":
        made = rotate_key(home.identity.ledger, (mine, mine), {}, AT)
        known["keys"].append(mine.public.hex())
        known["rotations"].append(msgspec.to_builtins(made))
    elif how == "of another ledger":
        other = rotate_key("0" * 32, (mine, mine), {}, AT)
        known["rotations"][0] = msgspec.to_builtins(other)
    elif how == "no rotation":
        del known["rotations"]
    elif how == "a longer chain":
        rotation["chains"]["cli"] += 1
    elif how == "no compromise":
        rotation["compromised_since"] = ""
    else:
        rotation[how] = rotation[how][:-2] + ("00" if rotation[how][-2:] != "00" else "11")
    path.write_bytes(msgspec.json.encode(known))
    return known


HOW = ["another key", "one more key", "one more rotation", "of another ledger", "no rotation",
       "a longer chain", "no compromise", "by_old", "by_new", "at"]  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_keys_follow_from_the_first_or_the_home_is_refused(home, how):
    rotate_signing_key(home, NEW, AT, Instant(START))
    forged(home, how)
    with pytest.raises(HomeError, match="the identity cannot be read"):
        Home(home.path)


def test_nothing_changes_while_a_process_writes(home):
    kept = (home.path / "identity.json").read_bytes()
    with ExitStack() as held:
        held.callback(home.ledger("web").release)
        with pytest.raises(ChainHeld, match="writes the chain `web`"):
            rotate_signing_key(home, NEW, AT)
    assert (home.path / "identity.json").read_bytes() == kept
    assert not (home.path / "keys" / "signing.next").exists()
    assert verify_ledger(Home(home.path)).is_intact
    with pytest.raises(InputError, match="to come"):
        rotate_signing_key(home, NEW, AT, Instant(AT + 1))


@pytest.mark.parametrize("step", ["the key is written", "the identity is written", "no chain"])
def test_a_crash_within_leaves_one_key_in_force(home, step):
    folder = home.path / "keys"
    old, identity = (folder / "signing").read_bytes(), (home.path / "identity.json").read_bytes()
    checkpoints = {path: path.read_bytes() for path in home.checkpoints.glob("*/*")}
    database = home.database.read_bytes()
    rotate_signing_key(home, NEW, AT)
    # As it stood before the chains were opened anew: rows, checkpoints, then the steps before.
    home.database.write_bytes(database)
    for path, data in checkpoints.items():
        path.write_bytes(data)
    if step != "no chain":
        (folder / "signing").rename(folder / "signing.next")
        (folder / "signing").write_bytes(old)
        (folder / "signing").chmod(0o600)
    if step == "the key is written":
        (home.path / "identity.json").write_bytes(identity)
    expected = old.decode().strip() if step == "the key is written" else NEW.hex()
    assert verify_ledger(Home(home.path)).is_intact
    with closing(Recorder(Home(home.path), "cli", OPENING)) as recorder:
        recorder.record(draft(9))
    assert (folder / "signing").read_text().strip() == expected
    found = Home(home.path)
    assert verify_ledger(found).is_intact
    assert found.signing_key().id == SigningKey(bytes.fromhex(expected)).id
    with closing(LedgerReader(found.database)) as reader:
        assert len([*reader.of_kind(ROTATED)]) == (0 if step == "the key is written" else 1)


def test_what_a_compromised_key_signed_is_told_and_still_intact(home):
    since = Instant(START + 1)
    fill(home, "cli", [draft(number) for number in range(5, 8)])
    rotate_signing_key(home, NEW, AT, since)
    report = verify_ledger(Home(home.path))
    assert report.is_intact
    told = [(each.chain, each.first, each.last) for each in report.doubts]
    assert told == [("cli", 0, 8), ("web", 0, 3)]
    assert all(instant_text(since) in each.message for each in report.doubts)


def test_only_what_no_checkpoint_before_covers_is_in_doubt(home):
    fill(home, "cli", [draft(number) for number in range(500, 503)])
    rotate_signing_key(home, NEW, AT, Instant(START + 400))
    told = [(each.chain, each.first, each.last) for each in verify_ledger(Home(home.path)).doubts]
    assert told == [("cli", 6, 8)]


def test_a_bundle_is_verified_by_the_first_key_and_by_the_newest(home, tmp_path):
    first = home.keys[0].id
    rotate_signing_key(home, NEW, AT)
    data = bundle_of(home, tmp_path)
    for expected in ("", first, SigningKey(NEW).id):
        report = checked(data, expected)
        assert report["is_intact"], report
        assert report["is_expected_key"] is (True if expected else None)
    assert report["keys"] == [first, SigningKey(NEW).id]
    assert not checked(data, SigningKey(NEWEST).id)["is_intact"]


def test_what_follows_from_a_compromised_key_is_not_expected(home, tmp_path):
    first = home.keys[0].id
    rotate_signing_key(home, NEW, AT)
    rotate_signing_key(Home(home.path), NEWEST, AT, Instant(START))
    data = bundle_of(home, tmp_path)
    for expected in (first, SigningKey(NEW).id):
        assert "is signed by" in checked(data, expected)["fault"]["message"]
    report = checked(data, SigningKey(NEWEST).id)
    assert report["is_intact"]
    assert report["compromised"] == {SigningKey(NEW).id: instant_text(Instant(START))}


def test_a_bundle_signed_by_the_old_key_is_refused(home, tmp_path):
    old = old_key(home)
    rotate_signing_key(home, NEW, AT)
    found = Home(home.path)
    found.signing_key = lambda: old
    data = export_bundle(found, tmp_path / "b").path.read_bytes()
    assert "not signed by a key" in checked(data)["fault"]["message"]


@pytest.mark.parametrize("name", ["cli", "mine"])
def test_a_bundle_with_checkpoints_of_the_old_key_is_refused(home, tmp_path, name):
    old = old_key(home)
    rotate_signing_key(home, NEW, AT)
    writer = forging_writer(home, name, old)
    writer.append(draft(77)).result()
    writer.close()
    fault = checked(bundle_of(home, tmp_path))["fault"]
    assert "not signed by a key of this ledger" in fault["message"]


def test_a_bundle_with_a_snapshot_of_the_old_key_is_refused(home, tmp_path):
    made = FORM.make(Weights("forged", 1), home.identity.ledger, old_key(home))
    rotate_signing_key(home, NEW, AT)
    fill(Home(home.path), "cli", [snapshot_draft(made, AT)])
    fault = checked(bundle_of(home, tmp_path))["fault"]
    assert (fault["chain"], fault["seq"]) == ("cli", 7)


@pytest.mark.parametrize("how", HOW)
def test_a_bundle_whose_keys_do_not_follow_is_refused(home, tmp_path, how):
    rotate_signing_key(home, NEW, AT, Instant(START))
    header, *rest = bundle_of(home, tmp_path).splitlines(keepends=True)
    known, before = forged(home, how), json.loads(header)
    header = {key: known[key] for key in ("keys", "rotations") if key in known}
    header |= {"format": before["format"], "ledger": before["ledger"]}
    line = json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    report = checked(b"".join([line, *rest]))
    assert (report["is_intact"], report["fault"]["line"]) == (False, 1)


@pytest.fixture
def year(tmp_path):
    """A chain of three parts, each ended by a checkpoint, and one that ended before the second."""
    home = open_home(tmp_path / "year")
    fill(home, "early", [draft(number) for number in range(3)])
    for start in (0, 1_000, 2_000):
        fill(home, "cli", [draft(start + number, (b"attached",)) for number in range(4)])
    return home


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (0, 999, {"cli": (0, 9), "early": (0, 4)}),
        (500, 3_000, {"cli": (5, 13), "early": (4, 4)}),
        (500, 1_003, {"cli": (5, 9), "early": (4, 4)}),
        (1_002, 1_003, {"cli": (5, 9), "early": (4, 4)}),
        (5_000, 6_000, {"cli": (13, 13), "early": (4, 4)}),
        (-1, 9_000, {"cli": (0, 13), "early": (0, 4)}),
    ],
)
def test_a_period_is_exported_from_checkpoint_to_checkpoint(year, tmp_path, since, until, expected):
    period = Period(Instant(START + since), Instant(START + until))
    data = bundle_of(year, tmp_path, period)
    report = checked(data, year.keys[0].id)
    assert report["is_intact"], report
    assert report["period"] == {"since": instant_text(period.since),
                                "until": instant_text(period.until)}  # fmt: skip
    assert report["entries"] == sum(end - first for first, end in expected.values())
    found, name = {}, ""
    for line in map(json.loads, data.splitlines()):
        if "chain" in line:
            name, found[line["chain"]] = line["chain"], (line.get("first", 0),)
        if "end" in line:
            found[name] += (line["entries"],)
    assert found == expected
    inside = {line["id"] for line in map(json.loads, data.splitlines()) if "seq" in line}
    wanted = {f"d-{n + k}" for n in (0, 1_000, 2_000) for k in range(4) if since <= n + k < until}
    assert wanted <= inside


@pytest.mark.parametrize(
    "change", ["no checkpoint", "another first", "no period", "an entry first"]
)
def test_a_part_without_its_beginning_is_refused(year, tmp_path, change):
    period = Period(Instant(START + 1_000), Instant(START + 3_000))
    lines = [json.loads(line) for line in bundle_of(year, tmp_path, period).splitlines()]
    whole = [json.loads(line) for line in bundle_of(year, tmp_path).splitlines()]
    if change == "no checkpoint":
        del lines[2]
    elif change == "another first":
        lines[1]["first"] = 9
    elif change == "no period":
        del lines[0]["period"]
    else:
        lines.insert(2, next(line for line in whole if line.get("seq") == 0))
    written = [json.dumps(e, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
               for e in lines]  # fmt: skip
    fault = checked("".join(written).encode())["fault"]
    assert fault["line"] in {2, 3}


def test_every_changed_bit_of_a_part_is_found(year, tmp_path):
    rotate_signing_key(year, NEW, Instant(START + 3_000))
    period = Period(Instant(START + 2_000), Instant(START + 4_000))
    data = bundle_of(year, tmp_path, period)
    assert checked(data)["is_intact"]
    for bit in range(0, len(data) * 8, 61):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            assert not checked(bytes(changed))["is_intact"], bit
        except Unusable:
            continue


def test_a_rotated_ledger_on_postgresql_is_proved_as_well(tmp_path, postgres_url):
    home = open_home(tmp_path / "home", store=postgres_url)
    opening = Draft("chain.opened", "open", "", Instant(START), b"{}")
    with closing(Recorder(home, "cli", opening)) as recorder:
        recorder.record(draft(1))
        with pytest.raises(ChainHeld):
            rotate_signing_key(home, NEW, AT)
    assert rotate_signing_key(home, NEW, AT).chains == {"cli": 2}
    with closing(Recorder(home, "cli", opening)) as recorder:
        recorder.record(draft(2))
    report = verify_ledger(home)
    assert (report.is_intact, report.entries) == (True, 4)
    assert checked(export_bundle(home, tmp_path / "b").path.read_bytes())["is_intact"]


def test_a_writer_that_is_open_is_not_closed_by_a_refused_rotation(home):
    writer = opened_writer(home, "cli")
    lease = home.ledger("cli")
    with pytest.raises(ChainHeld):
        rotate_signing_key(home, NEW, AT)
    writer.append(draft(9)).result()
    writer.close()
    lease.release()
    assert verify_ledger(Home(home.path)).is_intact


def _rotate_and_die(path, at_call):
    """Rotate in a process that ends at the so-manieth step that makes a file durable."""
    calls, names = itertools.count(1), ("fsync", "replace", "link")
    for name in names:
        real = getattr(os, name)

        def step(*given, real=real):
            if next(calls) == at_call:
                os._exit(9)
            return real(*given)

        setattr(os, name, step)
    rotate_signing_key(Home(path), NEW, AT)
    os._exit(0)


def test_a_rotation_that_is_killed_at_any_step_leaves_a_whole_ledger(home, tmp_path):
    processes, ended = multiprocessing.get_context("fork"), 9
    outcomes = set()
    for at_call in itertools.count(1):
        path = tmp_path / f"killed-{at_call}"
        shutil.copytree(home.path, path)
        child = processes.Process(target=_rotate_and_die, args=(path, at_call))
        child.start()
        child.join(60)
        ended = child.exitcode
        found = Home(path)
        assert verify_ledger(found).is_intact, at_call
        with closing(Recorder(found, "cli", OPENING)) as recorder:
            recorder.record(draft(9))
        assert verify_ledger(Home(path)).is_intact, at_call
        outcomes.add(Home(path).signing_key().id)
        if ended == 0:
            break
    assert at_call > 8, "there are steps to die at"
    assert outcomes == {home.keys[0].id, SigningKey(NEW).id}
