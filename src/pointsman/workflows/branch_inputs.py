"""The inputs of one evaluation: the cache key of its answer, and its input artifacts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pointsman.branches.compiled import CompiledDecision
from pointsman.branches.facts import BranchFacts
from pointsman.expressions.evaluate import EvaluationScope, RootNames
from pointsman.expressions.syntax import Path
from pointsman.expressions.values import Missing, Value, follow_path
from pointsman.kernel.canonical import ContentId, canonical_json

INPUT = "input"

_IN_CONDITION = RootNames()
_IN_INPUT = RootNames(has_input=False)


def cache_key(policy_id: ContentId, ready: CompiledDecision, facts: BranchFacts) -> bytes:
    """Return the key of an answer: the definition, the values read and the approvals.

    INVARIANT: two contexts with one key have one answer, to the byte (D-003-3).
    """
    approved: list[Value] = list(facts.approved)
    return _digest([policy_id.encode(), canonical_json(approved), *_values(ready, facts)])


def input_artifacts(ready: CompiledDecision, facts: BranchFacts) -> tuple[str, ...]:
    """Name the artifacts an evaluation read, for its lineage.

    A mapping that the decision reads from and that has an `artifact_id` or `id` is an artifact, by
    that name and its `version`; without any, all values read are one, by their content.
    """
    scope = EvaluationScope(facts.context)
    roots = [path.root for path in (*ready.input.reads, *ready.reads) if path.root != INPUT]
    found = [_IN_INPUT.start(each, scope) for each in dict.fromkeys(roots)]
    named = [_artifact(each) for each in found if isinstance(each, dict)]
    artifacts = tuple(dict.fromkeys(each for each in named if each))
    if artifacts:
        return artifacts
    return (f"value:{_digest(_values(ready, facts)).hex()[:32]}",)


def _values(ready: CompiledDecision, facts: BranchFacts) -> list[bytes]:
    """Return every value that the input and the conditions read; the first determine the input."""
    scope = EvaluationScope(facts.context)
    read = [_encode_path(path, scope, _IN_INPUT) for path in ready.input.reads]
    return read + [
        _encode_path(path, scope, _IN_CONDITION) for path in ready.reads if path.root != INPUT
    ]  # fmt: skip


def _encode_path(path: Path, scope: EvaluationScope, names: RootNames) -> bytes:
    found = follow_path(names.start(path.root, scope), path.steps)
    return b"" if isinstance(found, Missing) else canonical_json(found)


def _digest(parts: list[bytes]) -> bytes:
    said = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(said).digest()


def _artifact(value: Mapping[str, Value]) -> str:
    name = next((value[key] for key in ("artifact_id", "id") if value.get(key) is not None), None)
    if not _is_name(name):
        return ""
    version = value.get("version")
    return f"artifact:{name}@{version}" if _is_name(version) else f"artifact:{name}"


def _is_name(value: Value) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)
