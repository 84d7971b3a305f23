"""The reports of `rules check`, `show` and `reload`, as values and as text, on every surface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import UNSET, Struct

from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import instant_text
from pointsman.placement.policy import EMBEDDED, PlacementPolicy
from pointsman.storage.home import BareFolder, Home, is_home
from pointsman.storage.policies.policies import InForce, InvalidFile, PolicyFiles
from pointsman.storage.policies.policy_file import LastGood
from pointsman.storage.policies.publications import PUBLISHED_FILES
from pointsman.turns.policy import TurnPolicy, model_names
from pointsman.turns.rules.review import (
    Finding,
    Proof,
    Scoped,
    ZoneProof,
    condition_text,
    local_proof,
    review,
    scopes,
    zone_findings,
    zone_proofs,
)

FILES: Final = ("pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml")
EVERYWHERE: Final = "everywhere"


class CheckResult(Struct, frozen=True):
    """The result of a check of the policy files."""

    errors: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    stand_ins: tuple[str, ...]
    warnings: tuple[Finding, ...]
    proof: Proof
    auto: str
    policy_id: str
    zones: tuple[ZoneProof, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether nothing is wrong; warnings do not count."""
        return not self.errors and self.proof.holds and all(each.holds for each in self.zones)


def check_files(in_force: InForce, others: Sequence[InvalidFile] = ()) -> CheckResult:
    """Check the policy files; `others` are the broken ones among other files."""
    policy = in_force.ready.policy
    invalid = (*in_force.invalid, *others)
    return CheckResult(
        errors(invalid),
        tuple(each for file in invalid for each in file.problems if not _is_error(each)),
        stand_ins(invalid),
        (*review(policy), *zone_findings(policy, _named_zones(in_force.placement.policy))),
        local_proof(policy),
        _auto_text(in_force.placement.policy),
        in_force.policy_id,
        zone_proofs(policy),
    )


def _named_zones(policy: PlacementPolicy) -> Iterator[tuple[str, str]]:
    """Yield what keeps turns within a zone, with that zone."""
    for row in policy.rules:
        if row.zone is not UNSET:
            yield f"the table's row {row.id}", row.zone
    for rule in policy.policy_rules:
        if rule.zone is not UNSET:
            yield f"policy rule `{rule.id}`", rule.zone


def check_text(found: CheckResult) -> str:
    """Write errors, then warnings; `ok` when nothing is wrong."""
    proof = found.proof
    lines = [str(each) for each in found.errors]
    lines += [f"in force: {line}" for line in found.stand_ins]
    lines += [f"warning: {each}" for each in found.notes]
    lines += [f"warning: {_finding_text(each)}" for each in found.warnings]
    lines += [f"privacy: {'holds' if proof.holds else 'BROKEN'}: {proof.explanation}"]
    for each in found.zones:
        lines.append(f"zone: {'holds' if each.holds else 'BROKEN'}: {each.explanation}")
    lines.append(f"auto: {found.auto}")
    many = len(found.notes) + len(found.warnings)
    if found.is_ok:
        count = "1 warning" if many == 1 else f"{many} warnings"
        lines.append(f"ok, with {count}" if many else "ok")
    return "\n".join(map(printable, lines))


def check_value(found: CheckResult) -> dict[str, object]:
    """Return the same for programs."""
    value: dict[str, object] = {
        "ok": found.is_ok,
        "problems": [_problem_value(each) for each in (*found.errors, *found.notes)],
        "warnings": found.warnings,
        "privacy": found.proof,
        "auto": found.auto,
        "policy_id": found.policy_id,
    }
    return {**value, "zones": found.zones} if found.zones else value


def _auto_text(policy: PlacementPolicy) -> str:
    """Say whether the table's rows for privacy level `auto` bind turns, and why."""
    own = policy.local_model
    if policy.auto == "binding":
        model = "a local model" if own is UNSET else own
        return f"binding: AUTO_LOCAL keeps a turn here for {model}"
    if own is UNSET or own.startswith(EMBEDDED):
        return "advisory: AUTO_LOCAL is advice while placement.yaml names no local_model of yours"
    return "advisory: AUTO_LOCAL is advice, as placement.yaml says"


def errors(invalid: Iterable[InvalidFile]) -> tuple[Problem, ...]:
    """Return the problems that keep files from being in force."""
    return tuple(each for file in invalid for each in file.problems if _is_error(each))


def _is_error(problem: Problem) -> bool:
    return problem.code != Code.LAST_GOOD_NOT_KEPT


def other_files(home: Path, *, is_kept: bool = False) -> tuple[InvalidFile, ...]:
    """Return the broken ones among the files of agents, decisions, workflows and sensors.

    With `is_kept` the last good version of each is kept.
    """
    # Imported here, and only where there is something to read: a home may have none of them.
    from pointsman.signals.kinds import LET_THROUGH  # noqa: PLC0415 - see above
    from pointsman.storage.policies.agents_file import AGENTS, AgentsFiles  # noqa: PLC0415 - see above

    agents = AgentsFiles(home, kinds=LET_THROUGH, is_kept=is_kept).current()
    own = InvalidFile(AGENTS, agents.problems, agents.using_last_known_good)
    found = [own] if agents.problems else []
    if any((home / name).is_dir() for name in ("decisions", "workflows", "sensors")):
        from pointsman.storage.policies.decision_files import DecisionFiles  # noqa: PLC0415 - above
        from pointsman.storage.policies.sensor_files import SensorFiles  # noqa: PLC0415 - see above

        found += DecisionFiles(home, is_kept=is_kept).current().invalid
        found += SensorFiles(home, is_kept=is_kept).current().invalid
    return tuple(found)


def refuse_unknown(invalid: Sequence[InvalidFile]) -> None:
    """Raise with every error where a file is broken of which no good version is known."""
    if any(errors([each]) and not each.using_last_known_good for each in invalid):
        raise DocumentError(errors(invalid))


def rules_text(policy: TurnPolicy) -> str:
    """List the rules in the order in which they are tried, with their names."""
    lines: list[str] = []
    for scoped in scopes(policy):
        lines.append(scoped.workspace or EVERYWHERE)
        rows = [
            (f"  {number}", rule.name, condition_text(rule.when), "->", rule.target_text)
            for number, rule in enumerate(scoped.rules, 1)
        ]
        lines += table(rows).splitlines() if rows else ["  no rules"]
        lines += [f"  default  {default}" for default in (_default(policy, scoped),) if default]
    return "\n".join(map(printable, lines))


def rules_value(policy: TurnPolicy, policy_id: str) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "policy_id": policy_id,
        "scopes": [
            {
                "workspace": scoped.workspace,
                "default": _default(policy, scoped),
                "rules": [
                    {
                        "name": rule.name,
                        "when": condition_text(rule.when),
                        "use": rule.target_text,
                        "is_global": number >= scoped.own or scoped.workspace is None,
                    }
                    for number, rule in enumerate(scoped.rules)
                ],
            }
            for scoped in scopes(policy)
        ],
    }


class ReloadedFile(Struct, frozen=True):
    """The state of one file after it was read anew."""

    name: str
    state: Literal["changed", "unchanged", "new", "invalid", "absent", "published"]
    in_force: str


def last_good_files(home: Home) -> dict[str, bytes | None]:
    """Return the text in force of each file, to compare with after a reload."""
    return {name: _last_good(home, name) for name in FILES}


def reloaded_files(
    home: Home, before: dict[str, bytes | None], in_force: InForce
) -> list[ReloadedFile]:
    """List the files with what a reload changed."""
    return [_reloaded_file(home, name, before[name], in_force) for name in FILES]


def reload_text(files: list[ReloadedFile], in_force: InForce) -> str:
    """Set the reloaded files as a table."""
    rows = table((each.name, each.state, each.in_force) for each in files)
    return "\n".join([rows, f"policy {in_force.policy_id}", *origin_lines(in_force)])


def files_to_check(files: PolicyFiles) -> InForce:
    """Read the files of this machine anew, whether they or others are in force."""
    files.reload()
    return files.on_disk()


def bare_folder(home: Path, other: Path | None) -> BareFolder | None:
    """Return the folder of policy files to look at where there is no home; None where there is.

    `other` is looked at where `home` holds none of them.
    """
    if is_home(home):
        return None
    found = (each for each in (home, other) if each is not None and _holds_policy(each))
    return next(map(BareFolder, found), None)


def _holds_policy(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILES)


def origin_lines(in_force: InForce) -> list[str]:
    """Say where a policy comes from, unless that is the files and nothing else was asked for."""
    origin = in_force.origin
    if origin.source == "files":
        return [f"notice: {origin.notice}"] if origin.notice else []
    at, by = instant_text(origin.at), printable(origin.by)
    return [
        f"in force: publication {origin.number} by {by} at {at}",
        f"  publication {origin.publication_id}",
        f"  policy {in_force.policy_id}",
        f"  placement {in_force.placement_id}",
    ]


def origin_value(in_force: InForce) -> dict[str, object]:
    """Return the same for programs."""
    origin = in_force.origin
    value: dict[str, object] = {
        "source": origin.source,
        "policy_id": in_force.policy_id,
        "placement_id": in_force.placement_id,
    }
    if origin.source == "ledger":
        value |= {
            "number": origin.number,
            "publication_id": origin.publication_id,
            "by": origin.by,
            "at": instant_text(origin.at),
        }
    return {**value, "notice": origin.notice} if origin.notice else value


def stand_ins(invalid: Iterable[InvalidFile]) -> tuple[str, ...]:
    """Name the stand-in that is in force for each broken file."""
    return tuple(
        f"{_stand_in(each)} of {each.name}, until it is mended"
        for each in invalid
        if errors([each])
    )


def _stand_in(file: InvalidFile) -> str:
    if _is_shut(file):
        return "nothing leaves this machine: the strictest reading"
    return "the last good version" if file.using_last_known_good else "the defaults"


def _is_shut(file: InvalidFile) -> bool:
    """Tell whether a broken file has nothing to stand in for it but the strictest reading."""
    return file.name == "placement.yaml" and not file.using_last_known_good


def _finding_text(finding: Finding) -> str:
    where = f"{finding.workspace}: " if finding.workspace else ""
    return f"{where}{finding.code}: {finding.message}"


def _problem_value(problem: Problem) -> dict[str, str]:
    return {
        "place": str(problem.place),
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }


def _default(policy: TurnPolicy, scoped: Scoped) -> str | None:
    return ", ".join(scoped.scope.defaults or model_names(policy.global_default)) or None


def _last_good(home: Home, name: str) -> bytes | None:
    return LastGood(home.last_good / f"{name}.last-known-good").load()[0]


def _reloaded_file(home: Home, name: str, before: bytes | None, in_force: InForce) -> ReloadedFile:
    if in_force.origin.source == "ledger" and name in PUBLISHED_FILES:
        told = f"publication {in_force.origin.number} is in force"
        return ReloadedFile(name, "published", told)
    if not (home.path / name).exists():
        return ReloadedFile(name, "absent", "the defaults are in force")
    broken = next((each for each in in_force.invalid if each.name == name), None)
    if broken is not None and any(p.code != Code.LAST_GOOD_NOT_KEPT for p in broken.problems):
        which = "the last good version is" if broken.using_last_known_good else "the defaults are"
        if _is_shut(broken):
            return ReloadedFile(name, "invalid", "nothing leaves this machine")
        return ReloadedFile(name, "invalid", f"{which} in force")
    if before is None:
        return ReloadedFile(name, "new", "the file is in force")
    state: Literal["changed", "unchanged"] = (
        "unchanged" if before == _last_good(home, name) else "changed"
    )
    return ReloadedFile(name, state, "the file is in force")
