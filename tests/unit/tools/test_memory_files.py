"""What is remembered: changed in one step, bounded, never at the cost of people's text."""

from __future__ import annotations

import asyncio
import multiprocessing
import stat
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from pointsman.kernel.canonical import content_id
from pointsman.providers.messages import ToolUse
from pointsman.sessions.events.session import MemoryEviction, MemoryUpdated
from pointsman.sessions.tool import SessionMemory, ToolContext
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.memory_files import LARGEST, LONGEST_ENTRY, MemoryFiles, memory_tools
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import WorkspaceFolder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_entry_is_added_at_the_end_with_its_event(home: Path) -> None:
    before = "# Notes\n\n- old\n"
    (home / "MEMORY.md").write_text(before)
    done = MemoryFiles(home).add("memory", "prefers tabs\nin Go only")
    after = "# Notes\n\n- old\n- prefers tabs\n  in Go only\n"
    assert (home / "MEMORY.md").read_text() == after
    assert done.events == (
        MemoryUpdated(
            file="home/MEMORY.md",
            operation="add",
            hash_before=content_id(before.encode()),
            hash_after=content_id(after.encode()),
            size_before=len(before),
            size_after=len(after),
        ),
    )


def test_new_file_of_the_home_is_for_its_owner_alone(home: Path) -> None:
    MemoryFiles(home).add("user", "likes tea")
    assert (home / "USER.md").read_text() == "- likes tea\n"
    assert stat.S_IMODE((home / "USER.md").stat().st_mode) == 0o600


def test_last_line_without_an_end_stays_a_line(home: Path) -> None:
    (home / "MEMORY.md").write_text("- one")
    MemoryFiles(home).add("memory", "two")
    assert (home / "MEMORY.md").read_text() == "- one\n- two\n"


def test_what_is_known_is_not_added_again(home: Path) -> None:
    memory = MemoryFiles(home)
    memory.add("memory", "one fact")
    assert memory.add("memory", "  - one fact ").events == ()
    assert (home / "MEMORY.md").read_text() == "- one fact\n"


def test_text_is_replaced_where_it_stands_once(home: Path) -> None:
    (home / "MEMORY.md").write_text("- likes tea\n- likes milk\n")
    memory = MemoryFiles(home)
    (event,) = memory.replace("memory", "likes tea", "likes coffee").events
    assert isinstance(event, MemoryUpdated)
    assert event.operation == "replace"
    assert (home / "MEMORY.md").read_text() == "- likes coffee\n- likes milk\n"
    memory.replace("memory", "- likes milk\n", "")
    assert (home / "MEMORY.md").read_text() == "- likes coffee\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [("likes", "stands 2 times"), ("hates", "does not stand in"), ("", "does not stand in")],
)
def test_replacing_what_is_not_there_once_is_refused(home: Path, old: str, said: str) -> None:
    (home / "MEMORY.md").write_text("- likes tea\n- likes milk\n")
    with pytest.raises(CallFailed, match=said):
        MemoryFiles(home).replace("memory", old, "x")
    assert (home / "MEMORY.md").read_text() == "- likes tea\n- likes milk\n"


@pytest.mark.parametrize(
    "text",
    ["", " \n ", "x" * (LONGEST_ENTRY + 1), "\x00\x1b"],
    ids=["none", "blank", "long", "controls"],
)
def test_entry_must_say_something_short(home: Path, text: str) -> None:
    with pytest.raises(CallFailed) as caught:
        MemoryFiles(home).add("memory", text)
    assert caught.value.error_class == "validation_error"
    assert not (home / "MEMORY.md").exists()


def test_oldest_entries_make_room_and_peoples_text_stays(home: Path) -> None:
    head = "# About this project\n\nWritten by hand.\n\n"
    entries = [f"- entry {number:03d} {'x' * 200}\n" for number in range(75)]
    before = head + "".join(entries)
    assert len(before) <= LARGEST["memory"]
    (home / "MEMORY.md").write_text(before)
    done = MemoryFiles(home).add("memory", "newest " + "y" * 1_200)
    after = (home / "MEMORY.md").read_text()
    updated, eviction = done.events
    assert isinstance(updated, MemoryUpdated)
    assert isinstance(eviction, MemoryEviction)
    assert after.startswith(head)
    assert after.endswith("- newest " + "y" * 1_200 + "\n")
    gone = eviction.entries_evicted
    assert gone > 0
    assert entries[gone - 1] not in after
    assert entries[gone] in after
    assert (eviction.file, eviction.trigger) == ("home/MEMORY.md", "size_cap")
    assert eviction.size_before > LARGEST["memory"] >= eviction.size_after == len(after)
    assert updated.size_after == len(after)
    assert len(after) + len(entries[0]) > LARGEST["memory"]


def test_entry_goes_with_its_further_lines(home: Path) -> None:
    (home / "USER.md").write_text("- old\n  more of it\n" + f"- {'x' * 8_100}\n")
    MemoryFiles(home).add("user", "new " + "y" * 100)
    assert "more of it" not in (home / "USER.md").read_text()


def test_file_full_of_peoples_text_is_not_touched(home: Path) -> None:
    text = "by hand\n" * 2_100
    (home / "MEMORY.md").write_text(text)
    with pytest.raises(CallFailed, match="is full"):
        MemoryFiles(home).add("memory", "x")
    assert (home / "MEMORY.md").read_text() == text


def test_prompt_holds_each_file_under_its_title(home: Path, work: Path) -> None:
    (home / "USER.md").write_text("Ann, plumber\n")
    (home / "MEMORY.md").write_text("- likes tea\n")
    (work / "MEMORY.md").write_text("- use make\n")
    memory: SessionMemory = MemoryFiles(home, WorkspaceFolder(work, closed=(home,)))
    text = memory.prompt().text
    assert text.index("Ann") < text.index("tea") < text.index("make")
    assert "whoever wrote the workspace" in text


def test_prompt_is_bounded_and_says_what_is_missing(home: Path) -> None:
    (home / "MEMORY.md").write_text("- x\n" * 50_000)
    text = MemoryFiles(home).prompt().text
    assert len(text) < LARGEST["memory"] + 300
    assert "characters left out here" in text


def test_without_files_nothing_is_said(home: Path) -> None:
    assert MemoryFiles(home).prompt().text == ""


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x" * 2_000_000], ids=["binary", "huge"])
def test_file_that_cannot_be_read_says_nothing_and_is_not_changed(
    home: Path, content: bytes
) -> None:
    (home / "MEMORY.md").write_bytes(content)
    memory = MemoryFiles(home)
    assert memory.prompt().text == ""
    with pytest.raises(CallFailed):
        memory.add("memory", "x")
    assert (home / "MEMORY.md").read_bytes() == content


def test_memory_of_the_workspace_that_leads_out_is_neither_read_nor_written(
    home: Path, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (work / "MEMORY.md").symlink_to("../secret")
    memory = MemoryFiles(home, WorkspaceFolder(work))
    assert memory.prompt().text == ""
    with pytest.raises(CallFailed):
        memory.add("workspace", "x")
    assert (tmp_path / "secret").read_text() == "secret"


def test_without_a_workspace_its_memory_cannot_be_changed(home: Path) -> None:
    with pytest.raises(CallFailed, match="no workspace"):
        MemoryFiles(home).add("workspace", "x")


def test_digest_may_be_a_keyed_one(home: Path) -> None:
    (event,) = MemoryFiles(home, digest=lambda data: f"keyed:{len(data)}").add("memory", "x").events
    assert isinstance(event, MemoryUpdated)
    assert (event.hash_before, event.hash_after) == ("keyed:0", "keyed:4")


def _add_many(home: str, who: str) -> None:
    memory = MemoryFiles(Path(home))
    for number in range(25):
        memory.add("memory", f"{who} {number}")


def test_two_processes_lose_nothing(home: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=_add_many, args=(str(home), who)) for who in ("one", "two")]
    for each in both:
        each.start()
    for each in both:
        each.join()
    lines = (home / "MEMORY.md").read_text().splitlines()
    assert sorted(lines) == sorted(
        f"- {who} {number}" for who in ("one", "two") for number in range(25)
    )
    assert [each.name for each in home.iterdir()] == ["MEMORY.md"]


def test_tools_say_what_they_would_remember(home: Path) -> None:
    add, replace = memory_tools(MemoryFiles(home))

    def asked(name: str, **given: str) -> ToolUse:
        return ToolUse("tu_1", name, Raw(msgspec.json.encode(given)))

    request = add.describe(asked("memory_add", text="likes tea", file="user"))
    assert request.projected_modifications == ("remember `likes tea` (user)",)
    request = replace.describe(asked("memory_replace", old="a", new=""))
    assert request.projected_modifications == ("forget `a` (memory)",)
    outcome = asyncio.run(
        add.run(asked("memory_add", text="likes tea"), ToolContext("s", "t"), Stop())
    )
    assert [type(each) for each in outcome.events] == [MemoryUpdated]
    assert (home / "MEMORY.md").read_text() == "- likes tea\n"
