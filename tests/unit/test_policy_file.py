import hashlib
import os
import time
from types import SimpleNamespace

import pytest

from pointsman.errors import DocumentError, Place, Problem
from pointsman.storage.policies.policy_file import SETTLED_NS, PolicyFile

BAD = Problem(Place("policy", 1, 1), "config.syntax", "bad")


class Parser:
    """Reads any text but those that begin with `bad`, and counts."""

    def __init__(self, *also_bad):
        self.also_bad = also_bad
        self.calls = 0

    def __call__(self, content, source):
        self.calls += 1
        if content.startswith((b"bad", *self.also_bad)):
            raise DocumentError((BAD,))
        return content.decode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.yaml"


@pytest.fixture
def parser():
    return Parser()


@pytest.fixture
def keep(tmp_path):
    return tmp_path / "keep"


@pytest.fixture
def policy(path, parser, keep):
    return PolicyFile(path, parser, keep, default="default", limit=100)


def content_id(text):
    return "sha256:" + hashlib.sha256(text).hexdigest()


def codes(loaded):
    return [str(problem.code) for problem in loaded.problems]


def restarted(path, keep, parser=None):
    return PolicyFile(path, parser or Parser(), keep, default="default", limit=100)


def kept_file(keep):
    return keep / "policy.yaml.last-known-good"


def test_a_missing_file_is_the_default_without_a_problem(policy):
    loaded = policy.current()
    assert (loaded.value, loaded.content_id, loaded.source) == ("default", "", "default")
    assert loaded.problems == ()


def test_a_valid_file_is_in_force_under_the_id_of_its_bytes(policy, path):
    path.write_bytes(b"one")
    loaded = policy.current()
    assert (loaded.value, loaded.content_id, loaded.source) == ("one", content_id(b"one"), "file")
    assert loaded.problems == ()


@pytest.mark.req(106, 157)
def test_an_edit_takes_effect_at_the_next_look(policy, path):
    path.write_bytes(b"one")
    policy.current()
    path.write_bytes(b"three")
    assert policy.current().value == "three"


@pytest.mark.req(106, 157)
def test_an_unchanged_file_is_not_parsed_again(policy, path, parser):
    path.write_bytes(b"one")
    first = policy.current()
    assert policy.current() is first
    assert policy.reload() is first
    os.utime(path, ns=(1, 1))
    assert policy.current() is first
    assert parser.calls == 1


@pytest.mark.req(157)
def test_reload_sees_an_edit_that_kept_size_and_time(policy, path):
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    policy.current()
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert policy.reload().value == "two"


def test_a_file_that_appears_later_takes_effect(policy, path):
    policy.current()
    path.write_bytes(b"one")
    assert policy.current().value == "one"


def test_a_file_taken_away_leaves_the_default(policy, path):
    path.write_bytes(b"one")
    policy.current()
    path.unlink()
    assert policy.current().source == "default"


@pytest.mark.req(158)
def test_an_invalid_edit_keeps_the_last_good_and_says_so(policy, path):
    path.write_bytes(b"one")
    policy.current()
    path.write_bytes(b"bad")
    loaded = policy.current()
    assert (loaded.value, loaded.content_id) == ("one", content_id(b"one"))
    assert loaded.using_last_known_good
    assert loaded.problems == (BAD,)


@pytest.mark.req(158)
def test_an_invalid_file_is_not_parsed_again_until_it_changes(policy, path, parser):
    path.write_bytes(b"bad")
    assert policy.current() is policy.current()
    assert parser.calls == 1


@pytest.mark.req(158)
def test_the_first_content_invalid_leaves_the_default_with_problems(policy, path):
    path.write_bytes(b"bad")
    loaded = policy.current()
    assert (loaded.value, loaded.source) == ("default", "default")
    assert not loaded.using_last_known_good
    assert loaded.problems == (BAD,)


@pytest.mark.req(158)
def test_a_mended_file_is_in_force_again(policy, path):
    path.write_bytes(b"bad")
    policy.current()
    path.write_bytes(b"good")
    assert (policy.current().value, policy.current().problems) == ("good", ())


@pytest.mark.req(158)
def test_the_last_good_survives_a_restart(policy, path, keep):
    path.write_bytes(b"one\nmore")
    policy.current()
    path.write_bytes(b"bad")
    loaded = restarted(path, keep).current()
    assert (loaded.value, loaded.source) == ("one\nmore", "last_known_good")
    assert loaded.content_id == content_id(b"one\nmore")
    assert loaded.problems == (BAD,)


def test_the_last_good_is_readable_by_its_owner_alone(policy, path, keep):
    path.write_bytes(b"one")
    policy.current()
    assert kept_file(keep).stat().st_mode & 0o777 == 0o600
    assert [each.name for each in keep.iterdir()] == [kept_file(keep).name]


def test_the_last_good_is_written_once_for_the_same_content(policy, path, keep):
    path.write_bytes(b"one")
    policy.current()
    before = kept_file(keep).stat()
    restarted(path, keep).current()
    assert kept_file(keep).stat().st_ino == before.st_ino


@pytest.mark.parametrize("damage", [b"", b"sha256:0\none", b"\xff\xfe", b"one"])
def test_a_damaged_last_good_is_ignored_with_a_problem(path, keep, damage):
    keep.mkdir()
    kept_file(keep).write_bytes(damage)
    path.write_bytes(b"bad")
    loaded = restarted(path, keep).current()
    assert loaded.source == "default"
    assert codes(loaded) == ["config.syntax", "config.last_good_broken"]


def test_a_last_good_that_cannot_be_read_is_a_problem(path, keep):
    kept_file(keep).mkdir(parents=True)
    path.write_bytes(b"bad")
    assert codes(restarted(path, keep).current()) == ["config.syntax", "config.last_good_broken"]


def test_a_last_good_no_longer_valid_is_a_problem(policy, path, keep):
    path.write_bytes(b"one")
    policy.current()
    path.write_bytes(b"bad")
    loaded = restarted(path, keep, Parser(b"one")).current()
    assert loaded.source == "default"
    assert codes(loaded) == ["config.syntax", "config.last_good_broken", "config.syntax"]


def test_a_good_file_that_cannot_be_kept_is_in_force_with_a_problem(policy, path, keep):
    keep.write_bytes(b"in the way")
    path.write_bytes(b"one")
    loaded = policy.current()
    assert (loaded.value, loaded.source) == ("one", "file")
    assert codes(loaded) == ["config.last_good_not_kept"]


def test_a_failed_write_leaves_the_earlier_last_good(policy, path, keep, monkeypatch):
    path.write_bytes(b"one")
    policy.current()
    path.write_bytes(b"two!")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _fail)
        assert codes(policy.current()) == ["config.last_good_not_kept"]
    path.write_bytes(b"bad")
    assert restarted(path, keep).current().value == "one"
    assert [each.name for each in keep.iterdir()] == [kept_file(keep).name]


def _fail(*_arguments, **_named):
    raise OSError(28, "No space left on device")


def test_a_file_at_the_limit_is_read(policy, path):
    path.write_bytes(b"x" * 100)
    assert policy.current().source == "file"


def test_a_file_past_the_limit_is_refused_unread(policy, path, parser):
    with path.open("wb") as file:
        file.truncate(10**12)
    assert codes(policy.current()) == ["config.too_large"]
    assert parser.calls == 0


def test_an_unreadable_file_keeps_the_last_good(policy, path):
    path.write_bytes(b"one")
    policy.current()
    path.unlink()
    path.symlink_to(path)
    loaded = policy.current()
    assert (loaded.value, loaded.source) == ("one", "last_known_good")
    assert codes(loaded) == ["config.unreadable"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_regular_file_is_a_problem(policy, path, make):
    make(path)
    assert codes(policy.current()) == ["config.unreadable"]


def _writing_while_read(monkeypatch, path, contents):
    """Let somebody write the next content between the status and the bytes."""
    honest = os.fdopen
    pending = list(contents)

    def fdopen(descriptor, mode="r", **named):
        if mode == "rb" and pending:
            path.write_bytes(pending.pop(0))
        return honest(descriptor, mode, **named)

    monkeypatch.setattr(os, "fdopen", fdopen)


def test_a_file_changed_while_it_is_read_is_read_again(policy, path, monkeypatch, parser):
    path.write_bytes(b"a")
    _writing_while_read(monkeypatch, path, [b"a whole policy"])
    assert policy.current().value == "a whole policy"
    assert parser.calls == 1


def test_a_file_that_keeps_changing_is_never_in_force(policy, path, monkeypatch, parser):
    path.write_bytes(b"one")
    policy.current()
    path.write_bytes(b"h")
    _writing_while_read(monkeypatch, path, [b"ha", b"hal", b"half"])
    loaded = policy.current()
    assert (loaded.value, loaded.source) == ("one", "last_known_good")
    assert codes(loaded) == ["config.changing"]
    assert policy.current().value == "half"
    assert parser.calls == 2


@pytest.mark.req(157)
def test_two_edits_within_one_tick_of_the_clock_both_count(policy, path, parser, monkeypatch):
    path.write_bytes(b"one")
    tick, inode = time.time_ns(), path.stat().st_ino

    def within(look):
        def asked(*given, **named):
            found = look(*given, **named)
            if found.st_ino != inode:
                return found
            told = {name: getattr(found, name) for name in ("st_mode", "st_size", "st_ino")}
            return SimpleNamespace(**told, st_mtime_ns=tick, st_ctime_ns=tick)

        return asked

    monkeypatch.setattr(os, "stat", within(os.stat))
    monkeypatch.setattr(os, "fstat", within(os.fstat))
    assert policy.current().value == "one"
    path.write_bytes(b"two")
    assert policy.current().value == "two"
    assert policy.current() is policy.current()
    # Once the tick is over, time and size vouch for the file again.
    monkeypatch.setattr(time, "time_ns", lambda: tick + SETTLED_NS)
    assert policy.current().value == "two"
    assert policy.is_current()
    assert parser.calls == 2
