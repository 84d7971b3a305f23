"""Snapshots of agents and minds in a ledger: recorded once, signed, verified whenever read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar, cast

from pointsman.agents.compiled import CompiledAgents, CompiledAgentsPolicy
from pointsman.agents.modules.selfrep import SELFREP_FORM, SelfRep
from pointsman.agents.policy import POLICY_FORM, AgentsPolicy
from pointsman.brainstate.sealing import opened_state, sealed_state
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState
from pointsman.errors import MissingSnapshot, RouterNoSnapshot
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.instant import Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader

T = TypeVar("T")

MOST_READY: Final = 32
"""How many routers and states the cache holds."""


class AgentSnapshots:
    """The snapshots of one home. May be shared by threads."""

    def __init__(self, home: Home, decision_recorder: DecisionRecorder) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._cache: OrderedDict[tuple[str, str], object] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, form: SnapshotForm[T], value: T, at: Instant) -> ContentId:
        """Record a snapshot where it is new; it is durable when this returns."""
        name, recorder = form.id(value), self._decision_recorder.recorder()
        ledger = self._home.identity.ledger
        recorder.ensure_snapshot(
            name, lambda: snapshot_draft(form.make(value, ledger, recorder.key), at)
        )
        self._remember((form.kind, name), value)
        return name

    def policy(self, name: str) -> AgentsPolicy:
        """Read a router's configuration by its id."""
        return self._load(POLICY_FORM, name)

    def selfrep(self, name: str) -> SelfRep:
        """Read a snapshot of the modules by its id."""
        return self._load(SELFREP_FORM, name)

    def record_brainstate(self, state: BrainState, at: Instant) -> ContentId:
        """Record a state, its texts apart where they can be erased; durable when this returns."""
        recorder, waits = self._decision_recorder.recorder(), BlockingWaiter()
        sealed = sealed_state(state, lambda text: recorder.hand_in_text(text, waits))
        waits.wait()
        name = self.record(BRAINSTATE_FORM, sealed, at)
        self._remember(("mind", name), state)
        return name

    def brainstate_id(self, state: BrainState) -> ContentId:
        """Name a state as it is recorded, or would be."""
        return BRAINSTATE_FORM.id(sealed_state(state, self.seal))

    def seal(self, text: str) -> Sealed:
        """Seal a text without storing it."""
        return seal_text(text, self._home.content_key())

    def brainstate(self, name: str) -> BrainState:
        """Read a state by its id; raises `MissingSnapshot` where a text of it is gone."""
        return self._get_or_make(("mind", name), lambda: self._open_state(name))

    def mind(self, name: str) -> BrainState:
        """Read a state by its id without its texts: all that routing looks at."""
        return self._load(BRAINSTATE_FORM, name)

    def _open_state(self, name: str) -> BrainState:
        sealed = self.mind(name)
        with closing(ContentReader(self._home.content, self._home.content_key())) as reader:
            return opened_state(sealed, reader.text)

    def router(self, policy_id: str, selfrep_id: str) -> CompiledAgents:
        """Return the router of a policy and its modules, compiled once for all their jobs."""
        key = (policy_id, selfrep_id)
        ready = self._get_or_make(
            ("ready", policy_id), lambda: CompiledAgentsPolicy(self.policy(policy_id))
        )
        return self._get_or_make(key, lambda: CompiledAgents(ready, self.selfrep(selfrep_id)))

    def _load(self, form: SnapshotForm[T], name: str) -> T:
        return self._get_or_make((form.kind, name), lambda: self._read(form, name))

    def _read(self, form: SnapshotForm[T], name: str) -> T:
        path = self._home.database
        if not path.exists():
            raise _unknown(form, name)
        with told_errors(path), closing(LedgerReader(path)) as ledger:
            try:
                found = ledger.snapshot(name)
            except MissingSnapshot:
                raise _unknown(form, name) from None
        if found.kind != form.kind:
            raise RouterNoSnapshot(
                f"`{name}` names a snapshot of `{found.kind}`, not of `{form.kind}`"
            )
        return form.load(found, self._home.identity.ledger, self._home.keys)

    def _get_or_make(self, key: tuple[str, str], make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return cast("T", self._cache[key])
        made = make()
        self._remember(key, made)
        return made

    def _remember(self, key: tuple[str, str], value: object) -> None:
        with self._lock:
            self._cache[key] = value
            self._cache.move_to_end(key)
            while len(self._cache) > MOST_READY:
                self._cache.popitem(last=False)


def _unknown(form: SnapshotForm[T], name: str) -> RouterNoSnapshot:
    return RouterNoSnapshot(
        f"no snapshot of `{form.kind}` is recorded as `{name[:100]}`",
        hint="make one first: its id is what the call that makes it gives back",
    )
