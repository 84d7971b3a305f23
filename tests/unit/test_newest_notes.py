"""The newest checkpoints are found without reading those that were read before."""

from __future__ import annotations

from pathlib import Path

from pointsman.kernel.entry import Chain
from pointsman.storage.writer.checkpoints import NO_NOTES, CheckpointFolder, NewestNotes

CHAIN = Chain("a" * 32, "cli")


def note(size: int) -> str:
    return f"pointsman/{CHAIN.ledger}/cli\n{size}\nroot\n\n— name signature\n"


def written(folder: CheckpointFolder, *sizes: int) -> None:
    for size in sizes:
        folder.append(note(size), [b"h" * 32], before=size - 1)


def test_the_newest_notes_are_found_anew_or_from_where_they_were_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CHAIN)
    assert folder.newest(2, NO_NOTES) == NO_NOTES
    written(folder, 1, 2, 3)
    known = folder.newest(2, NO_NOTES)
    assert (known.texts, known.total) == ((note(2), note(3)), 3)
    assert folder.newest(2, known) is known
    written(folder, 4)
    assert folder.newest(2, known) == folder.newest(2, NO_NOTES)
    assert folder.newest(2, known).total == 4
    assert folder.newest(9, NO_NOTES).texts == tuple(folder.texts()[0])


def test_what_was_read_before_is_not_read_again(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CHAIN)
    written(folder, 1)
    known = folder.newest(2, NO_NOTES)
    written(folder, 2)
    # Something else stands in its place in what is known: the file would tell.
    told = NewestNotes(("remembered",), 7, known.read_to)
    assert folder.newest(2, told).texts == ("remembered", note(2))
    assert folder.newest(2, told).total == 8


def test_a_file_that_became_shorter_is_read_anew_and_a_torn_end_is_left_out(
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path, CHAIN)
    written(folder, 1, 2)
    known = folder.newest(2, NO_NOTES)
    file = tmp_path / CHAIN.name / "notes"
    file.write_text(f"{note(1)}\ntorn", encoding="utf-8")
    found = folder.newest(2, known)
    assert (found.texts, found.total) == ((note(1),), 1)
    file.write_text(f"{note(1)}\n{note(5)}\n", encoding="utf-8")
    assert folder.newest(2, found).texts == (note(1), note(5))
