"""The counts of words and files that must not grow."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from tests.docs.scripts import script

counter = script("count_words")

FILES = {
    "src/p/__init__.py": '"""The package."""\n',
    "src/p/low/__init__.py": "",
    "src/p/low/things.py": '''
        """Give what is here to whoever asks; nobody and those who wait get what was left."""

        from p.low import inner
        from p.low.other import OTHER


        class Thing:
            """Give a class no such docstring."""

            def told(self):
                """Return it. Somebody said: Give it."""  # What may come

        class _Hidden: ...

        async def _closed(): ...

        def feed(): ...

        def read_closed(): ...
        ''',
    "src/p/low/other/__init__.py": "OTHER = 1\n",
    "src/p/low/inner/__init__.py": "",
    "src/p/low/side/__init__.py": "from p.low.inner import deep\n",
    "src/p/low/inner/deep.py": """
        from ..things import Thing as Found
        from p.high.use import run_all

        class Other: ...

        @property
        def only_tested(): run_all()

        @register
        def is_registered(): ...

        def __repr__(): ...

        def only_benched(): ...

        def never_called(): ...
        """,
    "src/p/low/inner/alone.py": (
        "import p.low.inner.deep\nimport p.low.side\nclass Thing: ...\nclass _Hidden: ...\n"
    ),
    "src/p/high/__init__.py": "",
    "src/p/high/use.py": """
        import p.low.things
        from p.low.inner import deep

        def run_all(): feed(); read_closed(told=1); getattr(deep, "_closed")
        """,
    "src/p/testing/__init__.py": "",
    "src/p/testing/kit.py": "def build_kit(): ...\n",
    "bench/one.py": "from p.low.inner.deep import only_benched\n",
    "tests/test_it.py": (
        "only_tested, is_registered, build_kit, only_benched, __repr__, run_all, _closed\n"
    ),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
    return tmp_path


@pytest.fixture
def places(tree: Path) -> dict[str, list[str]]:
    return counter.count(tree, counter.read_modules(tree))


def test_functions_named_by_a_bare_participle_are_found(places: dict[str, list[str]]) -> None:
    assert places["participle_names"] == [
        "src/p/low/things.py:10 told",
        "src/p/low/things.py:15 _closed",
    ]


def test_what_is_as_a_noun_is_found_in_docstrings_and_comments(
    places: dict[str, list[str]],
) -> None:
    lines = [each.split()[0].rpartition(":")[2] for each in places["what_is_nouns"]]
    assert lines == ["1", "1", "11"]


def test_riddles_are_counted_one_by_one_in_any_case(places: dict[str, list[str]]) -> None:
    lines = [each.split()[0].rpartition(":")[2] for each in places["riddles"]]
    assert lines == ["1", "1", "1", "11"]


def test_public_class_names_in_two_files_are_found(places: dict[str, list[str]]) -> None:
    assert places["shared_class_names"] == ["Thing: p.low.inner.alone, p.low.things"]


def test_docstrings_that_begin_with_give_are_found(places: dict[str, list[str]]) -> None:
    lines = [each.split()[0].rpartition(":")[2] for each in places["give_docstrings"]]
    assert lines == ["1", "8"]


def test_folders_that_import_each_other_are_found_within_one_layer(
    places: dict[str, list[str]],
) -> None:
    assert places["folder_cycles"] == ["p.low.inner <-> p.low.side (1 and 1 imports)"]


def test_small_modules_with_one_importer_are_found(places: dict[str, list[str]]) -> None:
    assert places["single_use_modules"] == ["p.high.use (4 lines): p.low.inner.deep"]


def test_a_module_of_seventy_lines_is_not_small(tree: Path) -> None:
    use = tree / "src" / "p" / "high" / "use.py"
    use.write_text(use.read_text() + "x = 1\n" * (69 - 4))
    assert counter.count(tree, counter.read_modules(tree))["single_use_modules"]
    use.write_text(use.read_text() + "x = 1\n")
    assert not counter.count(tree, counter.read_modules(tree))["single_use_modules"]


def test_functions_that_only_tests_name_are_found(places: dict[str, list[str]]) -> None:
    assert places["functions_for_tests"] == ["src/p/low/inner/deep.py:7 only_tested"]


def test_files_and_lines_are_counted(tree: Path, places: dict[str, list[str]]) -> None:
    files = [*(tree / "src").rglob("*.py")]
    assert len(places["files"]) == len(files)
    assert len(places["lines"]) == sum(len(path.read_text().splitlines()) for path in files)


def test_a_count_above_its_figure_fails_and_says_so(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counter.main(["--write"], tree) == 0
    assert counter.main([], tree) == 0
    assert "more than" not in capsys.readouterr().out
    more = tree / "src" / "p" / "high" / "use.py"
    more.write_text(more.read_text() + "# nobody\n")
    assert counter.main([], tree) == 1
    told = capsys.readouterr().out
    assert "riddles 5: more than 4" in told
    assert "lines" in told
    assert "give_docstrings 2\n" in told


def test_figures_are_lowered_and_rise_only_by_name(tree: Path) -> None:
    counter.main(["--write"], tree)
    figures = tree / counter.FIGURES
    before = json.loads(figures.read_text())
    use = tree / "src" / "p" / "high" / "use.py"
    use.write_text(use.read_text() + "# nobody\n")
    alone = tree / "src" / "p" / "low" / "inner" / "alone.py"
    alone.write_text(alone.read_text().replace("class Thing: ...\n", ""))
    assert counter.main(["--write"], tree) == 1
    after = json.loads(figures.read_text())
    assert after["riddles"] == before["riddles"]
    assert after["shared_class_names"] == before["shared_class_names"] - 1
    assert counter.main(["--write", "--raise", "riddles"], tree) == 0
    assert json.loads(figures.read_text())["riddles"] == before["riddles"] + 1


def test_the_places_of_a_count_are_listed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert counter.main(["--list", "single_use_modules"], tree) == 0
    assert capsys.readouterr().out == "p.high.use (4 lines): p.low.inner.deep\n"
    with pytest.raises(SystemExit):
        counter.main(["--list", "no such count"], tree)
