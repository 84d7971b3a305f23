"""`agents.yaml` of a home with its last good content: the modules, and what rules the choice."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from pointsman.agents.compiled import CompiledAgentsPolicy, compile_policy
from pointsman.agents.file.agents_file import NO_AGENTS, AgentsFile
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.file.run_section import GivenCouncil, GivenRun, privacy_problems
from pointsman.agents.modules.folding import degrade_unproven_agents
from pointsman.agents.modules.selfrep import SelfRep
from pointsman.agents.policy import POLICY_FORM, AgentsPolicy, agents_policy, read_policy
from pointsman.errors import Problem
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.policy_file import Loaded, PolicyFile

AGENTS = "agents.yaml"
LIMITS = DocumentLimits(bytes=8 * 1024 * 1024, depth=16, nodes=500_000)
"""Modules may be many: some thousands of them, each with a dozen values."""


def read_agents(text: bytes, source: str, kinds: tuple[str, ...] = ()) -> AgentsFile:
    """Read `agents.yaml`, or raise with every problem at its place.

    `kinds` are the names that detectors know; without any, no such name is checked.
    """
    document = parse_yaml(text, source, LIMITS)
    if document.value is None and not document.problems:
        return NO_AGENTS
    return read_policy(document, lambda file, text: privacy_problems(file.privacy, kinds, text))


class AgentsInForce(Struct, frozen=True):
    """What `agents.yaml` says: the policy under the id it is recorded by, and the modules.

    `selfrep` is the file's own state where no events were folded in. `run`, `council` and
    `let_through` belong to the executor of jobs.
    """

    ready: CompiledAgentsPolicy
    policy_id: ContentId
    selfrep: SelfRep
    problems: tuple[Problem, ...]
    using_last_known_good: bool
    run: Mapping[str, GivenRun] = {}
    council: GivenCouncil = GivenCouncil()
    let_through: tuple[str, ...] = ()

    @property
    def policy(self) -> AgentsPolicy:
        """The policy itself."""
        return self.ready.policy


class AgentsFiles:
    """`agents.yaml` of one home; an edited file counts from the next call on."""

    def __init__(self, home: Path, *, kinds: tuple[str, ...] = (), is_kept: bool = True) -> None:
        self._file = PolicyFile(
            home / AGENTS,
            partial(read_agents, kinds=kinds),
            home / "last-good",
            default=NO_AGENTS,
            limit=LIMITS.bytes,
            is_kept=is_kept,
        )
        self._last: tuple[Loaded[AgentsFile], AgentsInForce] | None = None
        self._lock = threading.Lock()

    def current(self) -> AgentsInForce:
        """Return the agents' policy in force."""
        with self._lock:
            loaded = self._file.current()
            if self._last is None or self._last[0] is not loaded:
                self._last = (loaded, _in_force(loaded))
            return self._last[1]


def _in_force(loaded: Loaded[AgentsFile]) -> AgentsInForce:
    policy = agents_policy(loaded.value)
    policy_id = POLICY_FORM.id(policy)
    return AgentsInForce(
        compile_policy(policy),
        policy_id,
        degrade_unproven_agents(make_selfrep(loaded.value, policy_id)),
        loaded.problems,
        loaded.using_last_known_good,
        loaded.value.run,
        loaded.value.council,
        loaded.value.privacy.let_through,
    )
