"""File tools reach the workspace and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.open_files import open_files, opened_since

from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.reading import ReadInput, read_file
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.sessions.tools.writing import WriteInput, write_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('hello')\n")
    return root


def read(root: Path, path: str) -> str:
    return read_file(WorkspaceFolder(root), ReadInput(path), Stop())


def refusal(root: Path, path: str) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        read(root, path)
    return caught.value


@pytest.mark.parametrize(
    "path", ["src/main.py", "./src//main.py", "src/../src/main.py", "src/./main.py"]
)
def test_paths_inside_are_read(root: Path, path: str) -> None:
    assert read(root, path) == "print('hello')\n"


def test_absolute_path_inside_is_read(root: Path) -> None:
    assert read(root, str(root / "src" / "main.py")) == "print('hello')\n"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "src/../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "src/../../work/../secret.txt",
        "..",
    ],
)
def test_paths_outside_are_refused_with_what_to_do(root: Path, path: str) -> None:
    error = refusal(root, path)
    assert error.error_class == "permission_denied"
    assert error.message == (
        f"`{path}` lies outside the workspace: use a path relative to its root"
    )


def test_absolute_path_that_only_begins_like_the_root_is_outside(root: Path) -> None:
    (root.parent / "work2").mkdir()
    (root.parent / "work2" / "x").write_text("x")
    assert refusal(root, str(root.parent / "work2" / "x")).error_class == "permission_denied"


def test_absolute_path_with_dots_past_the_root_is_outside(root: Path) -> None:
    assert refusal(root, f"{root}/../secret.txt").error_class == "permission_denied"


@pytest.mark.parametrize("target", ["../secret.txt", "../../work/../secret.txt", "/etc/passwd"])
def test_link_that_leads_out_is_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert refusal(root, "link").error_class == "permission_denied"


def test_link_folder_that_leads_out_is_refused(root: Path) -> None:
    (root / "up").symlink_to("..")
    assert refusal(root, "up/secret.txt").error_class == "permission_denied"


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "code").symlink_to("src")
    (root / "src" / "again").symlink_to(root / "src" / "main.py")
    assert read(root, "code/again") == "print('hello')\n"


def test_dots_behind_a_link_go_back_along_where_it_led(root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "here").write_text("here")
    (root / "to_b").symlink_to("a/b")
    assert read(root, "to_b/../here") == "here"


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert "too many links" in refusal(root, "one").message


def test_path_with_endless_steps_ends(root: Path) -> None:
    assert "steps" in refusal(root, "src/../" * 200 + "src/main.py").message
    assert "characters" in refusal(root, "src/../" * 2_000).message


def test_link_in_place_of_the_root_is_resolved_once(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = WorkspaceFolder(tmp_path / "alias")
    (tmp_path / "alias").unlink()
    (tmp_path / "alias").symlink_to("/etc")
    assert read_file(workspace, ReadInput("src/main.py"), Stop()) == "print('hello')\n"


def test_pipe_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    error = refusal(root, "pipe")
    assert error.error_class == "permission_denied"
    assert error.message == "`pipe` is a pipe, not a regular file"


def test_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Names of sockets are short, so that it is made from inside its folder.
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("talk")
        assert refusal(root, "talk").message == "`talk` is a socket, not a regular file"


def test_device_is_refused() -> None:
    assert refusal(Path("/"), "dev/null").error_class == "permission_denied"


@pytest.mark.parametrize("path", ["proc/self/environ", "proc/self/root/etc/passwd", "sys/power"])
def test_kernel_files_are_refused_even_where_the_root_is_everything(path: str) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("no /proc here")
    assert refusal(Path("/"), path).error_class == "permission_denied"


def test_closed_folder_is_refused_by_whatever_path(root: Path) -> None:
    home = root / "home"
    (home / "keys").mkdir(parents=True)
    (home / "keys" / "signing").write_text("secret")
    (root / "way").symlink_to("home/keys")
    workspace = WorkspaceFolder(root, closed=(home,))
    for path in ("home/keys/signing", "way/signing", "src/../home/keys/signing"):
        with pytest.raises(CallFailed, match="closed to tools"):
            read_file(workspace, ReadInput(path), Stop())
    with pytest.raises(CallFailed, match="closed to tools"):
        write_file(workspace, WriteInput("home/routing.yaml", "rules: []"))


def test_closed_folder_cannot_be_the_workspace(root: Path) -> None:
    with pytest.raises(CallFailed, match="closed to tools"):
        WorkspaceFolder(root, closed=(root,))


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_names_that_no_file_has_are_refused(root: Path, path: str) -> None:
    assert refusal(root, path).error_class == "validation_error"


def test_name_that_is_too_long_is_refused(root: Path) -> None:
    assert refusal(root, "x" * 300).error_class == "validation_error"


def test_missing_file_is_told(root: Path) -> None:
    error = refusal(root, "src/mian.py")
    assert (error.error_class, error.message) == ("not_found", "`src/mian.py` does not exist")


def test_file_in_place_of_a_folder_is_told(root: Path) -> None:
    assert refusal(root, "src/main.py/x").error_class == "not_found"


def test_folder_in_place_of_a_file_is_told(root: Path) -> None:
    assert refusal(root, "src").message == "`src` is a folder, not a file: use list_dir"


def test_message_cannot_move_a_cursor(root: Path) -> None:
    assert "\x1b" not in refusal(root, "\x1b[2J").message


def test_descriptors_are_closed_whatever_happens(root: Path) -> None:
    (root / "up").symlink_to("..")
    before = open_files()
    for path in ("src/main.py", "up/secret.txt", "src/x/y", "..", "src"):
        try:
            read(root, path)
        except CallFailed:
            continue
    assert not opened_since(before)


def after_the_look(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Have something happen once, right after the tool has looked at a name."""
    look, waiting = os.stat, [act]

    def looked(path: str | int | Path, **more: object) -> os.stat_result:
        found = look(path, **more)  # type: ignore[arg-type] # passed on
        if path == name and waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(os, "stat", looked)


@pytest.fixture
def outside(root: Path) -> Path:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("outside")
    return outside


def test_folder_swapped_for_a_link_after_the_look_is_not_entered(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (root / "src").rename(root / "kept")
        (root / "src").symlink_to(outside)

    after_the_look(monkeypatch, "src", swap)
    assert refusal(root, "src/main.py").error_class in ("not_found", "permission_denied")
    assert (root / "src").is_symlink()


def test_file_swapped_for_a_link_after_the_look_is_not_read(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (root / "src" / "main.py").unlink()
        (root / "src" / "main.py").symlink_to(outside / "main.py")

    after_the_look(monkeypatch, "main.py", swap)
    assert refusal(root, "src/main.py").error_class == "permission_denied"


def test_file_swapped_for_a_pipe_after_the_look_is_not_waited_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (root / "src" / "main.py").unlink()
        os.mkfifo(root / "src" / "main.py")

    after_the_look(monkeypatch, "main.py", swap)
    assert refusal(root, "src/main.py").message == ("`src/main.py` is a pipe, not a regular file")


def test_folder_swapped_for_a_link_after_the_look_is_not_written_through(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (root / "src").rename(root / "kept")
        (root / "src").symlink_to(outside)

    after_the_look(monkeypatch, "src", swap)
    with pytest.raises(CallFailed):
        write_file(WorkspaceFolder(root), WriteInput("src/main.py", "mine"))
    assert (outside / "main.py").read_text() == "outside"
