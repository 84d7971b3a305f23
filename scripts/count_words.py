"""Count the words and files of src that this project wants fewer of, and hold them to a figure.

Prints one line a count and ends with 1 where a count is larger than its figure in
scripts/word_counts.json. --write lowers the figures to the counts; a figure rises only when it is
named with --raise. --list NAME prints the places of one count.

The words, in comments, docstrings and names:
  participle_names       functions named by a bare participle, as `_told`, `kept`, `closed`
  what_is_nouns          "what is", "what was" and the like used as a noun
  riddles                whoever, nobody, somebody, those who
  shared_class_names     public class names that stand in more than one file
  give_docstrings        docstrings that begin with "Give"
The structure:
  folder_cycles          pairs of folders of one layer that import each other
  single_use_modules     modules below 70 lines that exactly one other module imports
  functions_for_tests    functions that tests name and no other code does, by a search for names
  files, lines           of Python; printed, held to no figure
"""

import argparse
import ast
import asyncio
import io
import json
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = Path("scripts/word_counts.json")
SMALL = 70
"""A module below this many lines may be a part of its only importer."""
REACHING = ("scripts", "bench", "campaigns", "examples")
"""Code beside src that counts as a caller; tests do not."""

_RIDDLE = re.compile(r"\b(?:whoever|nobody|somebody|those\s+who)\b", re.IGNORECASE)
_WHAT_IS = re.compile(
    r"\bwhat\s+(?:is|was|are|were|has|had|it|they|came|comes|goes|went|follows|waits|serves|passes"
    r"|must|may|can|could)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z']+")
_IRREGULAR = frozenset({
    "begun", "bound", "built", "cut", "done", "drawn", "found", "given", "heard", "held", "kept",
    "known", "left", "made", "met", "put", "read_out", "said", "seen", "sent", "set_aside", "shown",
    "spent", "split", "taken", "told", "understood", "woken", "written",
})  # fmt: skip
_NO_PARTICIPLES = frozenset({
    "bed", "embed", "exceed", "feed", "heed", "indeed", "need", "proceed", "red", "seed", "shed",
    "speed",
})  # fmt: skip
_CALLED_BY_ASYNCIO = frozenset(dir(asyncio.Protocol))
"""Transports call them, those of the simulated network in the tests too."""
_PLAIN_DECORATORS = frozenset({
    "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod",
    "contextmanager", "final", "lru_cache", "override", "property", "staticmethod",
})  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef
Imports = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One file of the tree: its dotted name, and its text in three forms."""

    path: Path
    name: str
    source: str
    tree: ast.Module = field(repr=False)

    @property
    def package(self) -> str:
        """The dotted name of the folder it stands in."""
        return self.name if self.path.stem == "__init__" else self.name.rpartition(".")[0]

    @cached_property
    def prose(self) -> list[tuple[int, str, bool]]:
        """Its docstrings and comments: the line, the text, whether it is a docstring."""
        found = [
            (node.lineno, node.value.value, True)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ]
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        found += [(t.start[0], t.string, False) for t in tokens if t.type == tokenize.COMMENT]
        return found

    @property
    def functions(self) -> list[Function]:
        """Its functions and methods, in the order of their lines."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        return sorted(found, key=lambda node: node.lineno)


def read_modules(root: Path, folder: str = "src") -> list[Module]:
    """Read every Python file below a folder of the tree."""
    found = []
    for path in sorted((root / folder).rglob("*.py")):
        source = path.read_text("utf-8")
        parts = path.relative_to(root / folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(path, name, source, ast.parse(source)))
    return found


def count(root: Path, modules: list[Module]) -> dict[str, list[str]]:
    """List the places of every count, by its name."""
    imports = imports_of(modules)

    def place(module: Module, line: int, text: str) -> str:
        words = " ".join(text.split())[:90]
        return f"{module.path.relative_to(root).as_posix()}:{line} {words}"

    def matches(pattern: re.Pattern[str]) -> list[str]:
        return [
            place(module, line, text)
            for module in modules
            for line, text, _ in module.prose
            for _ in pattern.findall(text)
        ]

    return {
        "participle_names": [
            place(module, node.lineno, node.name)
            for module in modules
            for node in module.functions
            if is_participle(node.name)
        ],
        "what_is_nouns": matches(_WHAT_IS),
        "riddles": matches(_RIDDLE),
        "shared_class_names": shared_class_names(modules),
        "give_docstrings": [
            place(module, line, text)
            for module in modules
            for line, text, is_docstring in module.prose
            if is_docstring and text.startswith("Give ")
        ],
        "folder_cycles": folder_cycles(modules, imports),
        "single_use_modules": single_use_modules(modules, imports),
        "functions_for_tests": functions_for_tests(root, modules),
        "files": [module.name for module in modules],
        "lines": [
            f"{module.name} {number}"
            for module in modules
            for number in range(1, len(module.source.splitlines()) + 1)
        ],
    }


def is_participle(name: str) -> bool:
    word = name.strip("_")
    if word in _IRREGULAR:
        return True
    is_one_word = "_" not in word and len(word) > 3
    return is_one_word and word.endswith("ed") and word not in _NO_PARTICIPLES


def words_of(modules: Iterable[Module]) -> int:
    """Count the words of all comments and docstrings."""
    return sum(len(_WORD.findall(text)) for module in modules for _, text, _ in module.prose)


def shared_class_names(modules: Iterable[Module]) -> list[str]:
    places = defaultdict(set)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module.name)
    return [
        f"{name}: {', '.join(sorted(found))}"
        for name, found in sorted(places.items())
        if len(found) > 1
    ]


def imports_of(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Find which modules of the tree each module imports, wherever the import stands."""
    known = {module.name: module for module in modules}
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, module in known.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found[name] |= {each.name for each in node.names} & known.keys()
            elif isinstance(node, ast.ImportFrom):
                found[name] |= set(_imported_from(node, module, known))
        found[name].discard(name)
    return found


def _imported_from(
    node: ast.ImportFrom, module: Module, known: Mapping[str, Module]
) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        above = module.package.split(".")[: -node.level + 1 or None]
        base = ".".join([*above, *([base] if base else [])])
    for each in node.names:
        inner = f"{base}.{each.name}"
        if inner in known:
            yield inner
        elif base in known:
            yield base


def folder_cycles(modules: list[Module], imports: Imports) -> list[str]:
    """List the pairs of folders that import each other, within one package of the top level.

    A folder and one inside it are no such pair: the outer one puts together what the inner ones do.
    """
    folders = {module.name: module.package for module in modules}
    pairs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, imported in imports.items():
        for other in imported:
            if _layer(name) == _layer(other) and folders[name] != folders[other]:
                pairs[folders[name], folders[other]].add(f"{name} -> {other}")
    all_folders = sorted({*folders.values()})
    return [
        f"{a} <-> {b} ({len(pairs[a, b])} and {len(pairs[b, a])} imports)"
        for a, b in combinations(all_folders, 2)
        if (a, b) in pairs and (b, a) in pairs and not b.startswith(f"{a}.")
    ]


def _layer(name: str) -> str:
    return ".".join(name.split(".")[:2])


def single_use_modules(modules: list[Module], imports: Imports) -> list[str]:
    importers = defaultdict(set)
    for name, imported in imports.items():
        for other in imported:
            importers[other].add(name)
    return [
        f"{module.name} ({len(module.source.splitlines())} lines): {min(importers[module.name])}"
        for module in modules
        if module.path.stem != "__init__"
        and len(module.source.splitlines()) < SMALL
        and len(importers[module.name]) == 1
    ]


def functions_for_tests(root: Path, modules: list[Module]) -> list[str]:
    """List functions whose name stands in tests, and in other code only where they are defined.

    A search for names, so an equal name elsewhere hides one. Left out: names with two underscores
    at each end, functions that a decorator registers or asyncio calls, and the test kit.
    """
    callers = [*modules, *(each for folder in REACHING for each in read_modules(root, folder))]
    reached = {name for module in callers for name in _names_in(module.tree)}
    tested = {name for module in read_modules(root, "tests") for name in _names_in(module.tree)}
    return [
        f"{module.path.relative_to(root).as_posix()}:{node.lineno} {node.name}"
        for module in modules
        if _layer(module.name).rpartition(".")[2] != "testing"
        for node in module.functions
        if not (node.name.startswith("__") and node.name.endswith("__"))
        and node.name not in reached
        and node.name in tested
        and node.name not in _CALLED_BY_ASYNCIO
        and _decorators(node) <= _PLAIN_DECORATORS
    ]


def _names_in(tree: ast.AST) -> Iterator[str]:
    """List every name that code uses: variables, attributes, imports, arguments, plain texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield name
            case ast.MatchClass(kwd_attrs=names):
                yield from names


def _decorators(node: Function) -> set[str]:
    found = set()
    for each in node.decorator_list:
        target = each.func if isinstance(each, ast.Call) else each
        found.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "?"))
    return found


PRINTED_ONLY = frozenset({"files", "lines"})
"""A tree may grow with its abilities: these counts are shown, and never fail."""


def lower(known: Mapping[str, int], counted: Mapping[str, int], raised: set[str]) -> dict[str, int]:
    """Lower the known figures to the counts; raise only the ones that are named."""
    return {
        name: value if name in raised else min(value, known.get(name, value))
        for name, value in counted.items()
        if name not in PRINTED_ONLY
    }


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    told = __doc__ or ""
    parser = argparse.ArgumentParser(
        description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="lower the figures to the counts")
    parser.add_argument("--raise", dest="raised", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--list", dest="listed", metavar="NAME", help="print the places of a count")
    options = parser.parse_args(arguments)
    modules = read_modules(root)
    places = count(root, modules)
    if {options.listed, *options.raised} - {None, *places}:
        parser.error(f"the counts are {', '.join(places)}")
    if options.listed:
        print("\n".join(places[options.listed]))
        return 0
    file = root / FIGURES
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    counted = {name: len(found) for name, found in places.items()}
    if options.write:
        known = lower(known, counted, {*options.raised})
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
    return _report(counted, known, words_of(modules))


def _report(counted: Mapping[str, int], known: Mapping[str, int], words: int) -> int:
    is_worse = False
    for name, value in counted.items():
        line = f"{name} {value}"
        if name == "what_is_nouns":
            line += f" ({1000 * value / max(words, 1):.1f} per 1,000 of {words} words)"
        if name not in PRINTED_ONLY and value > known.get(name, 0):
            is_worse = True
            line += f": more than {known.get(name, 0)}; see `--list {name}`"
        print(line)
    return 1 if is_worse else 0


if __name__ == "__main__":
    sys.exit(main())
