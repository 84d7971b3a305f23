"""Shared by the commands about decisions: reading a context, and decisions without a trace."""

from __future__ import annotations

from pointsman.branches.facts import read_facts
from pointsman.cli.terms import Session, read_input
from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json
from pointsman.storage.policies.decision_files import DecisionFiles, DecisionsInForce

_CONTEXT_LIMITS = DocumentLimits(bytes=1 << 20, depth=60, nodes=200_000)


def read_context(given: str) -> dict[str, Value]:
    """Read a context: JSON itself, `@FILE`, or `-`; numbers stay exact."""
    if given == "-" or given.startswith("@"):
        text, source = read_input(given.removeprefix("@"))
    else:
        text, source = given.encode("utf-8", "surrogateescape"), "--input"
    value = read_json(text, source, _CONTEXT_LIMITS).value
    if not isinstance(value, dict):
        hint = 'write it like \'{"artifact": {"quality_score": 0.9}}\''
        raise InputError("a context is a mapping of names to values", where=source, hint=hint)
    read_facts("", value)
    return value


def decisions_in_force(session: Session) -> DecisionsInForce:
    """Read the decisions of a home without a trace; nothing but the folder need be there."""
    if session.is_home_given and not session.home.is_dir():
        raise InputError("there is no such folder", where=str(session.home))
    return DecisionFiles(session.home, is_kept=False).current()


def is_begun(session: Session) -> bool:
    """Tell whether a home has anything but decisions; where not, nothing can be recorded yet."""
    has_decisions = (session.home / "decisions").is_dir()
    return (session.home / "identity.json").exists() or not has_decisions
