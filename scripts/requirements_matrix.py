"""Print which numbered requirements have a test, and which are still open.

Reads docs/requirements.md, the `req` marks of the tests (from their source, nothing is imported)
and the `req` keys of the YAML cases. Ends with 1 when a mark names a number that does not exist.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 96

_LINE = re.compile(r"^([0-9]+)\. ([0-9]{3}) (.*?) \| (.*)$", re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CASE_NAMES = ("name", "note", "case", "id")


@dataclass(frozen=True)
class Requirement:
    """One line of docs/requirements.md."""

    number: int
    document: str
    section: str
    text: str


@dataclass(frozen=True)
class Mark:
    """One number that a test or a case carries, and where."""

    number: int
    file: str
    line: int
    test: str


class Unreadable(Exception):
    """A mark whose numbers cannot be read from the source."""


def read_requirements(text: str) -> dict[int, Requirement]:
    found = [Requirement(int(n), *rest) for n, *rest in _LINE.findall(text)]
    numbers = [each.number for each in found]
    if numbers != list(range(1, len(numbers) + 1)):
        raise Unreadable("docs/requirements.md: the numbers do not count up from 1 without a gap")
    return {each.number: each for each in found}


def marks_in_module(source: str, file: str) -> list[Mark]:
    """Return the marks of a test module: on tests, classes, parameters and the module itself."""
    return list(_Module(ast.parse(source, file), file).marks())


class _Module:
    def __init__(self, tree: ast.Module, file: str) -> None:
        self._tree = tree
        self._file = file
        # Marks kept under a name: `covers = pytest.mark.req(1)`, or a table of parameters.
        self._named = {
            name: marks
            for node in tree.body
            for name, value in _assignments(node)
            if name != "pytestmark" and (marks := list(self._in(value)))
        }

    def marks(self) -> Iterator[Mark]:
        used: set[str] = set()
        for test, nodes in _tests(self._tree.body, "", _pytestmarks(self._tree.body)):
            for node in nodes:
                for number, line in self._in(node):
                    yield Mark(number, self._file, line, test)
                for name in _names(node) & self._named.keys():
                    used.add(name)
                    for number, line in self._named[name]:
                        yield Mark(number, self._file, line, test)
        for name in self._named.keys() - used:
            for number, line in self._named[name]:
                yield Mark(number, self._file, line, name)

    def _in(self, node: ast.AST) -> Iterator[tuple[int, int]]:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and _is_req(call.func):
                for argument in call.args:
                    for number in self._numbers(argument):
                        yield number, call.lineno

    def _numbers(self, argument: ast.expr) -> Iterable[int]:
        if isinstance(argument, ast.Constant) and type(argument.value) is int:
            return [argument.value]
        if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Call):
            call = argument.value
            if isinstance(call.func, ast.Name) and call.func.id == "range":
                return range(*(ast.literal_eval(each) for each in call.args))
        where = f"{self._file}:{argument.lineno}"
        raise Unreadable(f"{where}: `{ast.unparse(argument)}` is not a number; write it out")


def _is_req(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("mark.req")


def _assignments(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((each.id, node.value) for each in node.targets if isinstance(each, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


def _pytestmarks(body: Iterable[ast.stmt]) -> list[ast.expr]:
    return [value for node in body for name, value in _assignments(node) if name == "pytestmark"]


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _tests(
    body: Iterable[ast.stmt], prefix: str, outer: list[ast.expr]
) -> Iterator[tuple[str, list[ast.expr]]]:
    """Return every test function with the expressions whose marks count for it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test"):
                yield prefix + node.name, [*outer, *node.decorator_list]
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inner = [*outer, *node.decorator_list, *_pytestmarks(node.body)]
            yield from _tests(node.body, f"{prefix}{node.name}::", inner)


def marks_in_case(text: str, file: str) -> list[Mark]:
    """Return the numbers that the `req` keys of a YAML file list."""
    try:
        documents = list(yaml.compose_all(text, _LOADER))
    except yaml.YAMLError as error:
        raise Unreadable(f"{file}: not YAML: {error}") from error
    return [mark for document in documents for mark in _case_marks(document, file)]


def _case_marks(node: yaml.Node | None, file: str) -> Iterator[Mark]:
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _case_marks(each, file)
    elif isinstance(node, yaml.MappingNode):
        held = {key.value: value for key, value in node.value}
        name = next((str(held[key].value) for key in _CASE_NAMES if key in held), "")
        for key, value in node.value:
            if key.value == "req":
                line = key.start_mark.line + 1
                for number in _case_numbers(value, f"{file}:{line}"):
                    yield Mark(number, file, line, name)
            else:
                yield from _case_marks(value, file)


def _case_numbers(node: yaml.Node, where: str) -> list[int]:
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    texts = [str(each.value) for each in items]
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise Unreadable(f"{where}: `req` takes a list of numbers")
    return [int(text) for text in texts]


def all_marks(root: Path) -> list[Mark]:
    """Return the marks of all tests and cases under a repository's root."""
    tests = root / "tests"
    found: list[Mark] = []
    for path in sorted(tests.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.req" in source:
            found += marks_in_module(source, path.relative_to(root).as_posix())
    for path in sorted((tests / "cases").rglob("*.y*ml")):
        source = path.read_text(encoding="utf-8")
        if "req" in source:
            found += marks_in_case(source, path.relative_to(root).as_posix())
    return found


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers as ranges: 1-3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def matrix_text(requirements: dict[int, Requirement], marks: list[Mark]) -> str:
    lines = []
    for number, each in requirements.items():
        row = f"{number:>4} {each.document} {each.section} | {each.text}"
        lines.append(row if len(row) <= WIDTH else row[: WIDTH - 1] + "…")
        lines += [f"       {where}" for where in _by_file(marks, number)]
    still_open = requirements.keys() - {mark.number for mark in marks}
    covered = len(requirements) - len(still_open)
    lines += ["", f"{covered} of {len(requirements)} covered"]
    lines += [f"open: {ranges(still_open)}"] if still_open else []
    return "\n".join(lines)


def _by_file(marks: list[Mark], number: int) -> Iterator[str]:
    tests: dict[str, list[str]] = {}
    for mark in marks:
        if mark.number == number and mark.test not in tests.setdefault(mark.file, []):
            tests[mark.file].append(mark.test)
    return (f"{file}: {', '.join(names)}" for file, names in tests.items())


def matrix_json(requirements: dict[int, Requirement], marks: list[Mark]) -> str:
    covered = {mark.number for mark in marks}
    value = {
        "total": len(requirements),
        "covered": len(covered),
        "open": sorted(requirements.keys() - covered),
        "requirements": [
            {
                "number": number,
                "document": each.document,
                "section": each.section,
                "requirement": each.text,
                "tests": sorted({f"{m.file}::{m.test}" for m in marks if m.number == number}),
            }
            for number, each in requirements.items()
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=False)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        text = (root / "docs" / "requirements.md").read_text(encoding="utf-8")
        requirements = read_requirements(text)
        marks = all_marks(root)
    except Unreadable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    unknown = [mark for mark in marks if mark.number not in requirements]
    if unknown:
        for mark in unknown:
            where = f"{mark.file}:{mark.line}"
            print(f"error: {where}: there is no requirement {mark.number}", file=sys.stderr)
        return 1
    print((matrix_json if options.json else matrix_text)(requirements, marks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
