"""`write_file` replaces a file in one step or leaves everything as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.sessions.tools.writing import (
    MOST_BYTES,
    Mode,
    WriteInput,
    WriteResult,
    projected_change,
    write_file,
)


def write(root: Path, path: str, content: str, mode: Mode = "replace") -> WriteResult:
    return write_file(WorkspaceFolder(root), WriteInput(path, content, mode))


def refusal(root: Path, path: str, content: str = "x", mode: Mode = "replace") -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        write(root, path, content, mode)
    return caught.value


def test_new_file_is_made_with_its_folders(tmp_path: Path) -> None:
    written = write(tmp_path, "a/b/c.txt", "grün\n")
    assert (tmp_path / "a/b/c.txt").read_bytes() == "grün\n".encode()
    assert written == WriteResult("a/b/c.txt", None, 6)
    assert written.to_text() == "created `a/b/c.txt` with 6 bytes"


def test_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("old")
    (tmp_path / "run.sh").chmod(0o751)
    assert write(tmp_path, "run.sh", "new!").to_text() == "wrote `run.sh`: 3 bytes before, 4 now"
    assert (tmp_path / "run.sh").read_text() == "new!"
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o751


def test_new_file_has_the_mode_that_others_get(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path, "x", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_append_adds_to_the_end(tmp_path: Path) -> None:
    write(tmp_path, "log", "one\n", "append")
    written = write(tmp_path, "log", "two\n", "append")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
    assert (written.before, written.after) == (4, 8)


def test_create_refuses_an_existing_file(tmp_path: Path) -> None:
    write(tmp_path, "x", "one", "create")
    assert "exists already" in refusal(tmp_path, "x", "two", "create").message
    assert (tmp_path / "x").read_text() == "one"


def test_link_is_written_through_when_it_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert write(tmp_path, "link", "new").path == "real"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_link_that_leads_out_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("../outside")
    assert refusal(tmp_path / "work", "link").error_class == "permission_denied"
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "a/../../x"])
def test_nothing_is_made_outside(tmp_path: Path, path: str) -> None:
    (tmp_path / "work").mkdir()
    assert refusal(tmp_path / "work", path).error_class in ("permission_denied", "not_found")
    assert [each.name for each in tmp_path.rglob("*")] == ["work"]


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.GIT/config"])
def test_files_of_git_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    assert "belongs to git" in refusal(tmp_path, path).message


def test_read_only_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("kept")
    (tmp_path / "x").chmod(0o444)
    assert refusal(tmp_path, "x").message == "`x` is read-only"
    assert (tmp_path / "x").read_text() == "kept"


def test_folder_and_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "is a folder" in refusal(tmp_path, "folder").message
    assert "is a pipe" in refusal(tmp_path, "pipe").message
    assert "is a folder" in refusal(tmp_path, ".").message


def test_protected_names_are_refused_by_any_way(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("kept")
    (tmp_path / "way").symlink_to("MEMORY.md")
    workspace = WorkspaceFolder(tmp_path)
    for path in ("MEMORY.md", "memory.md", "way", "./x/../MEMORY.md"):
        with pytest.raises(CallFailed):
            write_file(workspace, WriteInput(path, "x"), ("MEMORY.md", "USER.md"))
    assert (tmp_path / "MEMORY.md").read_text() == "kept"


def test_content_has_a_largest_size_and_must_be_text(tmp_path: Path) -> None:
    assert "larger than" in refusal(tmp_path, "x", "y" * (MOST_BYTES + 1)).message
    assert "surrogate" in refusal(tmp_path, "x", "\ud800").message
    assert [*tmp_path.iterdir()] == []


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """The limit on file sizes stands for a full disk: the write fails half-way."""
    (tmp_path / "x").write_text("old")
    script = """
import resource, sys
from pathlib import Path
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.sessions.tools.writing import WriteInput, write_file
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_file(WorkspaceFolder(Path(sys.argv[1])), WriteInput("x", "y" * 100_000))
except CallFailed as error:
    print(error.error_class, error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "execution_error `x` cannot be written: it would be larger than files may be here"
    )
    assert (tmp_path / "x").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_what_would_happen_is_told_without_doing_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1234")
    workspace = WorkspaceFolder(tmp_path)
    assert projected_change(workspace, WriteInput("new/y", "ab")) == "create `new/y` (2 bytes)"
    assert (
        projected_change(workspace, WriteInput("x", "ab"))
        == "replace `x` (4 bytes before, 2 after)"
    )
    assert (
        projected_change(workspace, WriteInput("x", "ab", "append"))
        == "append 2 bytes to `x` (4 bytes)"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x"]
