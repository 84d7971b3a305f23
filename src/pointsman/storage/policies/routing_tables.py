"""The decisions of `decisions/` that routing rules may name, as tables of the turns' room.

Rooms may not meet: here, where both are known, a decision becomes a plain value that `turns` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pointsman.branches.compiled import CompiledDecision
from pointsman.branches.file.decisions_file import DecisionsFile
from pointsman.branches.policy import (
    Decision,
    branch_policy,
    definition_id,
    named_decisions,
    read_policy,
)
from pointsman.expressions.values import same
from pointsman.storage.policies.policy_file import PolicyFile
from pointsman.turns.policy import NO_TABLES
from pointsman.turns.rules.table import HitWay, OfferedRow, OfferedTable

DECISIONS = "decisions"

_WAYS: Mapping[str, HitWay] = {
    "first": "first",
    "unique": "unique",
    "any": "any",
    "priority": "lowest",
    "output_priority": "lowest",
}
_NOTHING = DecisionsFile()


class RoutingTables(Mapping[str, OfferedTable]):
    """The tables of a home. No file is read before a rule names a table."""

    def __init__(self, home: Path) -> None:
        self._path = home / DECISIONS
        self._files: dict[str, PolicyFile[DecisionsFile]] = {}
        self._known: dict[str, OfferedTable] | None = None

    def __getitem__(self, name: str) -> OfferedTable:
        return self._tables()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables())

    def __len__(self) -> int:
        return len(self._tables())

    def in_force(self) -> Mapping[str, OfferedTable]:
        """Return the tables, if a rule has asked for one; the same value until a file changes."""
        if self._known is None:
            return NO_TABLES
        if not self.is_current():
            fresh = self._read()
            self._known = self._known if fresh == self._known else fresh
        return self._known

    def is_current(self) -> bool:
        """Tell whether the files are as they were read; true where none was."""
        if self._known is None:
            return True
        is_same = self._names() == [*self._files]
        return is_same and all(file.is_current() for file in self._files.values())

    def reload(self) -> None:
        """Read every file anew from the next question on."""
        self._files.clear()

    def _tables(self) -> dict[str, OfferedTable]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _names(self) -> list[str]:
        if not self._path.is_dir():
            return []
        suffixes = {".yaml", ".yml"}
        paths = (each for each in self._path.iterdir() if each.suffix in suffixes)
        return sorted(each.name for each in paths if not each.name.startswith("."))

    def _read(self) -> dict[str, OfferedTable]:
        self._files = {name: self._files.get(name) or self._file(name) for name in self._names()}
        found: dict[str, OfferedTable] = {}
        for name, file in self._files.items():
            loaded = file.current()
            for decision in branch_policy([loaded.value]).decisions:
                found.setdefault(decision.id, offer_table(decision))
            if loaded.problems and file.content is not None:
                for each in sorted(named_decisions(file.content) or ()):
                    refusal = f"{DECISIONS}/{name} has errors"
                    found.setdefault(each, OfferedTable(each, "", "", "first", (), "", refusal))
        return found

    def _file(self, name: str) -> PolicyFile[DecisionsFile]:
        keep = self._path.parent / "last-good" / DECISIONS
        return PolicyFile(self._path / name, read_policy, keep, default=_NOTHING, is_kept=False)


def offer_table(decision: Decision) -> OfferedTable:
    """Return a decision as routing may use it, or with the reason why it may not."""
    refusal = _refusal(decision)
    is_single = decision.type in {"binary", "switch"}
    way: HitWay = "first" if is_single else _WAYS.get(decision.hit_policy, "first")
    rows: tuple[OfferedRow, ...] = ()
    if not refusal:
        ranks = _ranks(decision)
        rows = tuple(
            OfferedRow(case.label, case.condition, case.target, rank)
            for case, rank in zip(decision.cases, ranks, strict=True)
        )
    return OfferedTable(
        decision.id, definition_id(decision), decision.input, way, rows, decision.default_target,
        refusal,
    )  # fmt: skip


def _refusal(decision: Decision) -> str:
    if decision.guardrails:
        kinds = ", ".join(dict.fromkeys(each.type for each in decision.guardrails))
        return (
            f"a table of a rule has no guardrails or approval ({kinds}):"
            " vetoes, budgets and permissions guard a model"
        )
    if decision.type == "weighted":
        return "a weighted decision is a `split` of the rule"
    if decision.aggregate is not None:
        return f"a table of a rule chooses a model and adds nothing up: `{decision.aggregate}`"
    if decision.type not in {"binary", "switch"} and decision.hit_policy not in _WAYS:
        return f"the hit policy `{decision.hit_policy}` selects several targets; a turn has one"
    return ""


def _ranks(decision: Decision) -> list[int]:
    """Return the rank of each row; under `any`, rows of one rank say the same."""
    if decision.hit_policy == "priority":
        return [case.priority for case in decision.cases]
    if decision.hit_policy == "any":
        return _agreement(decision)
    return [*CompiledDecision(decision).ranks]


def _agreement(decision: Decision) -> list[int]:
    outputs = CompiledDecision(decision).outputs
    found: list[int] = []
    for number, case in enumerate(decision.cases):
        found.append(
            next(
                each
                for each in range(number + 1)
                if decision.cases[each].target == case.target
                and same(outputs[each], outputs[number])
            )
        )
    return found
