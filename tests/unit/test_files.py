import os
import stat

import pytest

from pointsman.storage.files import make_file, make_folder, replace_file, write_at, write_new


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask():
    """Shows that privacy does not rest on the caller's umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_folders_are_private_also_those_above(tmp_path):
    make_folder(tmp_path / "a" / "b" / "c")
    assert [_mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o700] * 3
    make_folder(tmp_path / "a" / "b" / "c")


def test_folder_is_not_made_over_a_file(tmp_path):
    (tmp_path / "a").write_text("a file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b")


def test_made_file_is_private_and_an_existing_one_is_left_alone(tmp_path):
    path = tmp_path / "file"
    make_file(path)
    assert (_mode(path), path.read_bytes()) == (0o600, b"")
    path.write_bytes(b"content")
    make_file(path)
    assert path.read_bytes() == b"content"


def test_new_file_is_written_once(tmp_path):
    path = tmp_path / "file"
    assert write_new(path, b"first")
    assert not write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert _mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path], "nothing temporary is left"


def test_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    replace_file(path, b"a long first version")
    replace_file(path, b"short")
    assert path.read_bytes() == b"short"
    assert _mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [True, False])
def test_writing_at_a_place_cuts_what_stands_behind_it(tmp_path, durable):
    path = tmp_path / "file"
    write_at(path, b"0123456789", 0, durable=durable)
    assert _mode(path) == 0o600
    write_at(path, b"ab", 4, durable=durable)
    assert path.read_bytes() == b"0123ab"


def test_failed_write_leaves_what_was_there_before(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_at(path, b"before", 0, durable=True)

    def failing(descriptor):
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="input/output error"):
        write_at(path, b"after", 6, durable=True)
    assert path.read_bytes() == b"before", "what may not be on the disk is not read back"


def test_failed_replacement_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    replace_file(path, b"old")

    def failing(descriptor):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
