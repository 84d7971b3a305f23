"""Claims about a policy, answered exactly; what refutes one is a case that `rules test` replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct, to_builtins

from pointsman.kernel.document import printable
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.operations.rules.cases import case_text, read_table, run_on_files
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.policy import known_zones
from pointsman.turns.proofs.claims import (
    Claim,
    ClaimAnswer,
    ClaimedDecision,
    ClaimedTurns,
    Prover,
    read_claims,
)

_STAYS: Final = Claim(
    "what must stay on this machine reaches no cloud model",
    ClaimedTurns(privacy_level="local"),
    never=ClaimedDecision(location="cloud"),
)


class ProvedClaim(Struct, frozen=True):
    """A claim in words, its answer, and its example as a case; without an example it is empty."""

    note: str
    says: str
    answer: ClaimAnswer
    case: str


class ProofReport(Struct, frozen=True):
    """The answers to all claims, in their order."""

    claims: tuple[ProvedClaim, ...]

    @property
    def failures(self) -> int:
        """How many claims do not hold."""
        return sum(not each.answer.holds for each in self.claims)


def read_claim_text(text: bytes, source: str, ready: CompiledTurnPolicy) -> tuple[Claim, ...]:
    """Read a list of claims, or one that stands alone."""
    if text.lstrip().startswith(b"{"):
        text = b"- " + text.lstrip()
    return read_claims(parse_yaml(text, source), ready)


def usual_claims(ready: CompiledTurnPolicy) -> tuple[Claim, ...]:
    """Return the claims of a run without any: privacy holds, and every rule can fire."""
    policy = ready.policy
    rules = (*policy.rules, *(rule for each in policy.workspaces for rule in each.rules))
    fires = (
        Claim(f"rule {rule.name} can fire", some=ClaimedDecision(rule=rule.name)) for rule in rules
    )
    return (_STAYS, *map(_stays_within, known_zones(policy)), *fires)


def _stays_within(zone: str) -> Claim:
    return Claim(
        f"what must stay within {zone} reaches no model outside of it",
        ClaimedTurns(zone_is=zone),
        never=ClaimedDecision(outside=zone),
    )


def prove_claims(files: PolicyFiles, claims: Sequence[Claim]) -> ProofReport:
    """Answer claims about the files as they are on disk, and run every example that is found."""
    prover = Prover(files.on_disk().ready)
    answered = [_prove(prover, claim) for claim in claims]
    cases = "".join(each.case for each in answered)
    if cases and run_on_files(files, read_table(cases.encode(), "examples")).failures:
        raise AssertionError(f"an example does not replay:\n{cases}")
    return ProofReport(tuple(answered))


def _prove(prover: Prover, claim: Claim) -> ProvedClaim:
    answer, says = prover.answer(claim), claim_text(claim)
    note = claim.note or says
    case = "" if answer.example is None else case_text(note, answer.example)
    return ProvedClaim(note, says, answer, case)


def claim_text(claim: Claim) -> str:
    """Write a claim in one line."""
    kinds = {"never": claim.never, "always": claim.always, "some": claim.some}
    kind, decision = next(each for each in kinds.items() if each[1] is not UNSET)
    about = ", ".join(_says(claim.when)) or "every turn"
    return f"{kind} {', '.join(_says(decision))}: {about}"


def _says(given: ClaimedTurns | ClaimedDecision | object) -> Iterator[str]:
    for name, value in to_builtins(given).items():
        yield f"{name} {_value_text(value)}"


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_value_text(each)}' for name, each in value.items())})"
    if isinstance(value, (list, tuple)):
        return " or ".join(map(_value_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def proof_text(report: ProofReport) -> str:
    """Write the answers, each refuted claim with the smallest turn that refutes it."""
    lines: list[str] = []
    for each in report.claims:
        answer = each.answer
        verdict = "UNKNOWN" if answer.unknown else "holds  " if answer.holds else "REFUTED"
        lines.append(f"{verdict}  {each.note}")
        if each.note != each.says:
            lines.append(f"         {each.says}")
        if answer.is_empty:
            lines.append("         there is no such turn")
        if answer.unknown:
            lines.append(f"         {answer.unknown}")
        elif not answer.holds:
            lines += [f"    {line}" for line in each.case.splitlines()]
    held = len(report.claims) - report.failures
    lines.append(f"{held} of {len(report.claims)} hold, for every turn there can be")
    return "\n".join(map(printable, lines))


def proof_value(report: ProofReport) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "held": len(report.claims) - report.failures,
        "refuted": sum(not e.answer.holds and not e.answer.unknown for e in report.claims),
        "unknown": sum(bool(each.answer.unknown) for each in report.claims),
        "claims": [
            {
                "note": each.note,
                "says": each.says,
                "holds": each.answer.holds,
                "unknown": each.answer.unknown or None,
                "is_empty": each.answer.is_empty,
                "steps": each.answer.steps,
                "case": each.case or None,
            }
            for each in report.claims
        ],
    }


def proof_cases(report: ProofReport) -> str:
    """Return a table of cases: each example that was found, as the policy decides it."""
    return "".join(each.case for each in report.claims)
