"""`read_file`, `list_dir` and `search` give what is there, within bounds, and say what they cut."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from pointsman.sessions.tools import listing, searching
from pointsman.sessions.tools.excerpt import MOST_CHARACTERS, Excerpt
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.listing import ListInput, list_dir
from pointsman.sessions.tools.reading import ReadInput, read_file
from pointsman.sessions.tools.searching import Glob, SearchInput, search
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import WorkspaceFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def read(root: Path, path: str, first: int | None = None, last: int | None = None) -> str:
    return read_file(WorkspaceFolder(root), ReadInput(path, first, last), Stop())


def found(root: Path, pattern: str, **asked: object) -> list[str]:
    input_ = SearchInput(pattern, **asked)  # type: ignore[arg-type] - what each test asks
    return search(WorkspaceFolder(root), input_, Stop()).splitlines()


class TestLines:
    @pytest.fixture
    def five(self, root: Path) -> Path:
        (root / "five").write_text("1\n2\n3\n4\n5")
        return root

    @pytest.mark.parametrize(
        ("first", "last", "given"),
        [
            (2, 3, "[lines 2 to 3]\n2\n3\n"),
            (None, 2, "[lines 1 to 2]\n1\n2\n"),
            (4, None, "[lines 4 to 5]\n4\n5"),
            (5, 99, "[lines 5 to 5]\n5"),
            (1, 5, "[lines 1 to 5]\n1\n2\n3\n4\n5"),
        ],
    )
    def test_lines_asked_for_are_given(
        self, five: Path, first: int | None, last: int | None, given: str
    ) -> None:
        assert read(five, "five", first, last) == given

    def test_lines_past_the_end_are_told(self, five: Path) -> None:
        with pytest.raises(CallFailed, match="has only 5 lines"):
            read(five, "five", 6)

    def test_last_line_end_begins_no_line(self, root: Path) -> None:
        (root / "two").write_text("1\n2\n")
        assert read(root, "two", 2, 9) == "[lines 2 to 2]\n2\n"
        with pytest.raises(CallFailed, match="has only 2 lines"):
            read(root, "two", 3)

    @pytest.mark.parametrize(("first", "last"), [(0, None), (-1, 2), (3, 2)])
    def test_impossible_lines_are_refused(self, five: Path, first: int, last: int | None) -> None:
        with pytest.raises(CallFailed) as caught:
            read(five, "five", first, last)
        assert caught.value.error_class == "validation_error"

    def test_only_line_ends_end_lines(self, root: Path) -> None:
        (root / "odd").write_text("a\u2028b\x0cc\r\nd\n")
        assert read(root, "odd", 2, 2) == "[lines 2 to 2]\nd\n"

    def test_lines_across_pieces_are_whole(self, root: Path) -> None:
        lines = [f"{number} " + "y" * (number % 997) for number in range(1, 2_000)]
        (root / "many").write_text("\n".join(lines))
        given = read(root, "many", 700, 705).splitlines()[1:]
        assert given == lines[699:705]


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
    def test_byte_order_mark_tells_the_encoding(self, root: Path, encoding: str) -> None:
        (root / "x").write_bytes("grün\nzwei\n".encode(encoding))
        text = read(root, "x")
        assert text.endswith("grün\nzwei\n")
        assert ("not UTF-8" in text) == (encoding != "utf-8-sig")

    def test_other_bytes_are_read_as_latin_1_and_told(self, root: Path) -> None:
        (root / "x").write_bytes("grün\n".encode("latin-1"))
        assert read(root, "x") == "[not UTF-8, read as latin-1]\ngrün\n"

    def test_character_cut_by_a_piece_is_whole(self, root: Path) -> None:
        text = "ü" * 40_000
        (root / "x").write_text("a" + text[:20_000])
        assert read(root, "x") == "a" + text[:20_000]

    @pytest.mark.parametrize(
        ("start", "named"),
        [(b"\x89PNG\r\n\x1a\n\0", "a PNG picture"), (b"\0\1\2", "a binary file")],
    )
    def test_binary_file_is_told_with_its_size(self, root: Path, start: bytes, named: str) -> None:
        (root / "x").write_bytes(start + b"\0" * 100)
        with pytest.raises(CallFailed) as caught:
            read(root, "x")
        assert caught.value.message == f"`x` is {named} of {len(start) + 100} bytes, not text"

    def test_empty_file_is_empty_text(self, root: Path) -> None:
        (root / "x").touch()
        assert read(root, "x") == ""


class TestExcerpt:
    def test_short_text_is_whole(self) -> None:
        excerpt = Excerpt(100)
        excerpt.write("a" * 60)
        excerpt.write("b" * 40)
        assert excerpt.text() == "a" * 60 + "b" * 40

    def test_long_text_keeps_both_ends_and_says_what_is_missing(self) -> None:
        excerpt = Excerpt(90)
        for number in range(1_000):
            excerpt.write(f"{number:03d}\n")
        head, gap, tail = excerpt.text().partition("[… ")
        assert head.startswith("000\n001\n")
        assert tail.endswith("998\n999\n")
        gone = int(tail.split(" ")[0])
        kept = len(head.removesuffix("\n")) + len(tail.partition("…]\n")[2])
        assert gap
        assert gone + kept == 4_000

    def test_memory_stays_flat(self) -> None:
        excerpt = Excerpt(10_000)
        tracemalloc.start()
        for _ in range(200_000):
            excerpt.write("0123456789" * 3)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert excerpt.size == 6_000_000
        assert peak < 200_000

    def test_huge_file_is_read_in_flat_memory(self, root: Path) -> None:
        with (root / "huge").open("wb") as file:
            for _ in range(40):
                file.write(b"0123456789abcdef\n" * 60_000)
        tracemalloc.start()
        text = read(root, "huge")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(text) < MOST_CHARACTERS + 200
        assert peak < 3_000_000

    def test_one_endless_line_is_cut_in_itself(self, root: Path) -> None:
        (root / "line").write_text("x" * 500_000)
        assert "characters left out here" in read(root, "line")


class TestListing:
    def test_names_are_in_one_order_with_kinds(self, root: Path) -> None:
        (root / "b").mkdir()
        (root / "a.txt").write_text("12345")
        (root / "c").symlink_to("a.txt")
        os.mkfifo(root / "d")
        assert list_dir(WorkspaceFolder(root), ListInput(), Stop()).splitlines() == [
            "a.txt (5)",
            "b/",
            "c -> a.txt",
            "d (a pipe)",
        ]

    def test_deeper_levels_are_set_in_and_noise_is_not_entered(self, root: Path) -> None:
        (root / "src" / "inner").mkdir(parents=True)
        (root / "src" / "x").touch()
        (root / "node_modules" / "y").mkdir(parents=True)
        text = list_dir(WorkspaceFolder(root), ListInput(".", 2), Stop())
        assert text.splitlines() == ["node_modules/", "src/", "  inner/", "  x (0)"]

    def test_links_are_not_entered(self, root: Path) -> None:
        (root / "loop").symlink_to(".")
        assert list_dir(WorkspaceFolder(root), ListInput(".", 8), Stop()) == "loop -> ."

    def test_many_names_are_cut_and_counted(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "MOST_SHOWN", 10)
        for number in range(25):
            (root / f"{number:02d}").touch()
        lines = list_dir(WorkspaceFolder(root), ListInput(), Stop()).splitlines()
        assert lines[:2] == ["00 (0)", "01 (0)"]
        assert lines[-1] == "[… 15 more not shown …]"

    def test_hostile_names_cannot_move_a_cursor(self, root: Path) -> None:
        (root / "a\x1b[2J\nb").touch()
        text = list_dir(WorkspaceFolder(root), ListInput(), Stop())
        assert text == "a\\u001b[2J\\u000ab (0)"

    def test_empty_folder_is_told(self, root: Path) -> None:
        assert list_dir(WorkspaceFolder(root), ListInput(), Stop()) == "(empty)"

    @pytest.mark.parametrize("depth", [0, 9, -1])
    def test_depth_has_bounds(self, root: Path, depth: int) -> None:
        with pytest.raises(CallFailed, match="`depth` lies between 1 and 8"):
            list_dir(WorkspaceFolder(root), ListInput(".", depth), Stop())


class TestSearch:
    @pytest.fixture(autouse=True)
    def _tree(self, root: Path) -> None:
        (root / "src").mkdir()
        (root / "src" / "a.py").write_text("import os\n\ndef run():\n    return os\n")
        (root / "src" / "b.ts").write_text("export function run() {}\n")
        (root / "README.md").write_text("How to run\n")

    def test_lines_are_given_with_place_in_order(self, root: Path) -> None:
        assert found(root, "run") == [
            "README.md:1: How to run",
            "src/a.py:3: def run():",
            "src/b.ts:1: export function run() {}",
        ]

    def test_line_is_given_once_however_often_it_matches(self, root: Path) -> None:
        (root / "x").write_text("aaa\nbab\n")
        assert found(root, "a", path="x") == ["x:1: aaa", "x:2: bab"]

    @pytest.mark.parametrize(
        ("glob", "files"),
        [
            ("*.py", ["src/a.py"]),
            ("src/*", ["src/a.py", "src/b.ts"]),
            ("**/*.{py,md}", ["README.md", "src/a.py"]),
            ("src/**/*.ts", ["src/b.ts"]),
            ("[A-Z]*", ["README.md"]),
            ("docs/**", []),
        ],
    )
    def test_glob_narrows(self, root: Path, glob: str, files: list[str]) -> None:
        lines = found(root, "run", glob=glob)
        assert [line.partition(":")[0] for line in lines if "run" in line] == files

    def test_anchors_mean_lines(self, root: Path) -> None:
        assert found(root, "^def", path="src") == ["src/a.py:3: def run():"]
        assert found(root, "os$", path="src") == [
            "src/a.py:1: import os",
            "src/a.py:4:     return os",
        ]

    def test_empty_pattern_gives_every_line_once(self, root: Path) -> None:
        assert len(found(root, "", path="src/a.py")) == 4
        assert found(root, "^$", path="src/a.py") == ["src/a.py:2: "]

    def test_match_never_spans_lines(self, root: Path) -> None:
        assert found(root, r"os\s+def") == ["no line matches"]
        assert found(root, r"[^x]*def", path="src/a.py") == ["src/a.py:3: def run():"]

    def test_hits_are_bounded_and_told(self, root: Path) -> None:
        (root / "many").write_text("hit\n" * 500)
        lines = found(root, "hit", most=3)
        assert lines == ["many:1: hit", "many:2: hit", "many:3: hit",
                         "[more lines match; these are the first 3]"]  # fmt: skip

    def test_binary_and_large_files_are_told(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "LARGEST_FILE", 1_000)
        (root / "bin").write_bytes(b"run\0")
        (root / "big").write_text("run\n" * 1_000)
        lines = found(root, "run")
        assert lines[-2:] == ["[1 files above 1000 bytes not searched]",
                              "[1 binary files not searched]"]  # fmt: skip

    def test_work_is_bounded_and_told(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searching, "MOST_FILES", 1)
        assert found(root, "run") == [
            "README.md:1: How to run",
            "[stopped after 1 files: name a `path` or a `glob`]",
        ]

    def test_links_are_not_followed(
        self, root: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        outside = tmp_path_factory.mktemp("outside")
        (outside / "x").write_text("run\n")
        (root / "out").symlink_to(outside)
        (root / "file").symlink_to(outside / "x")
        assert len(found(root, "run")) == 3

    def test_pattern_that_would_backtrack_for_ever_ends(self, root: Path) -> None:
        (root / "x").write_text("a" * 100_000 + "\n")
        assert found(root, "(a+)+b", path="x") == ["no line matches"]

    @pytest.mark.parametrize(
        "pattern",
        ["(", "a{1001}", "(?=x)", "\ud800", "x" * 2_000],
        ids=["open", "count", "look", "half", "long"],
    )
    def test_unusable_pattern_is_told(self, root: Path, pattern: str) -> None:
        with pytest.raises(CallFailed) as caught:
            found(root, pattern)
        assert caught.value.error_class == "validation_error"
        assert "\n" not in caught.value.message

    def test_search_stops_when_it_is_wished(self, root: Path) -> None:
        stop = Stop()
        stop.request()
        with pytest.raises(CallFailed) as caught:
            search(WorkspaceFolder(root), SearchInput("run"), stop)
        assert caught.value.error_class == "cancelled"

    def test_long_line_is_cut(self, root: Path) -> None:
        (root / "x").write_text("run" + "y" * 5_000)
        (line,) = found(root, "run", path="x")
        assert len(line) < 320
        assert line.endswith("…")


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b/c.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "a/x/y/c.py", True),
        ("**", "a/b", True),
        ("?.py", "ab.py", False),
        ("[!a].py", "b.py", True),
        ("[!a].py", "a.py", False),
        ("a.b", "axb", False),
        ("./a/b", "a/b", True),
        ("{a,b}/x", "b/x", True),
    ],
)
def test_globs_mean_what_people_expect(glob: str, path: str, fits: bool) -> None:
    assert Glob(glob).fits(path) is fits


def test_stop_calls_from_another_thread_once() -> None:
    stop, calls = Stop(), []
    stop.on_request(lambda: calls.append(1))
    threads = [threading.Thread(target=stop.request) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.on_request(lambda: calls.append(2))
    assert calls == [1, 2]
