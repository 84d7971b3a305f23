"""Stops: signed orders that no model is called any more, for all, a tenant or a provider.

Every process of a home obeys them within a second. An order and its end are signed snapshots, and
an event makes each known; one that no key of the ledger signed counts nothing.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from pointsman.errors import LedgerError, NotFound, ReplayError
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, SECOND, Clock, IdSource, Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.home import Home
from pointsman.storage.policies.publications import load_snapshot
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.turns.chain.validation import stop_text
from pointsman.turns.facts import ActiveStop, StopScope
from pointsman.turns.registry.models import provider_of

T = TypeVar("T")

EVENTS: Final = "event.stop."
ORDERED: Final = "event.stop.ordered"
LIFTED: Final = "event.stop.lifted"

LOOK_S: Final = 0.25
"""How often the ledger is looked at: an order must be obeyed within a second, the look included."""

OVERLAP: Final = 60 * SECOND
"""Clocks of two processes may differ a little, and entries become visible when they are synced."""


class StopOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An order to stop; `name` is the tenant or the provider, empty for all."""

    id: str
    scope: StopScope
    name: str
    reason: str
    by: str
    cuts_calls: bool
    at: Instant

    @property
    def fact(self) -> ActiveStop:
        """The order as a turn's facts hold it."""
        return ActiveStop(self.id, self.scope, self.name, self.reason, self.by)


class StopLift(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a stop, by an approved request."""

    stop_id: str
    request_id: str
    reason: str
    by: str
    at: Instant


ORDER_FORM = SnapshotForm("stop.order", 1, StopOrder)
LIFT_FORM = SnapshotForm("stop.lift", 1, StopLift)
STOP_TEXT = Form(StopOrder)
LIFT_TEXT = Form(StopLift)


class CallUnderWay(Protocol):
    """A model call that an order may cut."""

    @property
    def tenant(self) -> str:
        """The tenant of its caller."""
        ...

    @property
    def model(self) -> str:
        """The model that is called."""
        ...

    def cut_off(self, why: str) -> None:
        """Cut it off; from any thread, and nothing where it has ended."""
        ...


class Stops:
    """The stops in force, kept up with the ledger; may be shared by threads."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._reader: LedgerReader | None = None
        self._looked_at = float("-inf")
        self._seen_until = EPOCH
        self._seen: set[str] = set()
        self._orders: dict[str, StopOrder] = {}
        self._lifted: set[str] = set()
        self._in_force: tuple[StopOrder, ...] = ()
        self._calls: set[CallUnderWay] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.refused: tuple[str, ...] = ()
        """Entries that claim a stop or its end and are not signed so: they count nothing."""

    def in_force(self) -> tuple[StopOrder, ...]:
        """Return the stops in force; looks at the ledger where no thread follows it."""
        if self._thread is None and time.monotonic() - self._looked_at > LOOK_S:
            self.look()
        return self._in_force

    def facts(self, tenant: str) -> tuple[ActiveStop, ...]:
        """Return the stops that turns of a tenant obey, as facts."""
        return tuple(each.fact for each in self.seen_by(tenant))

    def seen_by(self, tenant: str | None) -> tuple[StopOrder, ...]:
        """Return the stops that a reader may see: all, or those that concern a tenant."""
        found = self.in_force()
        if tenant is None:
            return found
        return tuple(each for each in found if each.scope != "tenant" or each.name == tenant)

    def against(self, tenant: str, model: str) -> StopOrder | None:
        """Return the first stop that forbids a call."""
        found = self.in_force()
        return next((each for each in found if _forbids(each, tenant, model)), None)

    def watch(self, call: CallUnderWay) -> None:
        """Cut this call when an order asks for that, until it is forgotten."""
        self._calls.add(call)
        if self._thread is None:
            self.follow()

    def forget(self, call: CallUnderWay) -> None:
        """Cut this call no more: it has ended."""
        self._calls.discard(call)

    def follow(self) -> None:
        """Look at the ledger in a thread from now on, so that no turn waits for a look."""
        with self._lock:
            if self._thread is not None or self._closing.is_set():
                return
            self._thread = threading.Thread(target=self._follow, name="stops", daemon=True)
        self.look()
        self._thread.start()

    def look(self) -> None:
        """Read the orders of all processes. Blocks."""
        with self._lock, told_errors(self._home.database):
            before = self._in_force
            self._read_new()
            self._looked_at = time.monotonic()
            new = [each for each in self._in_force if each.cuts_calls and each not in before]
        for order in new:
            for call in [*self._calls]:
                if _forbids(order, call.tenant, call.model):
                    call.cut_off(stop_text(order.fact))

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        with self._lock:
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_S):
            # Known orders stay in force while the ledger cannot be read.
            with suppress(LedgerError):
                self.look()

    def _read_new(self) -> None:
        if self._reader is None:
            if not self._home.database.exists():
                return
            self._reader = LedgerReader(self._home.database)
        since = Instant(max(EPOCH, self._seen_until - OVERLAP))
        told = self._reader.of_kind(EVENTS, since)
        new = [each for each in told if each.entry.id not in self._seen]
        for stored in new:
            self._seen.add(stored.entry.id)
            self._seen_until = max(self._seen_until, stored.entry.at)
            self._take(self._reader, stored)
        if new:
            open_orders = (each for each in self._orders.values() if each.id not in self._lifted)
            self._in_force = tuple(sorted(open_orders, key=lambda each: (each.at, each.id)))

    def _take(self, reader: LedgerReader, stored: Stored) -> None:
        try:
            if stored.entry.kind == ORDERED:
                order = _load(reader, self._home, ORDER_FORM, STOP_TEXT, stored)
                self._orders[order.id] = order
            elif stored.entry.kind == LIFTED:
                self._lifted.add(_load(reader, self._home, LIFT_FORM, LIFT_TEXT, stored).stop_id)
        except (ReplayError, ValueError) as error:
            self.refused = (*self.refused, f"{stored.entry.id}: {error}")


class StopKeeper:
    """Records orders to stop and their ends in one home."""

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        sources: tuple[Clock, IdSource],
        stops: Stops,
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._clock, self._ids = sources
        self._stops = stops

    def order(
        self, scope: StopScope, name: str, reason: str, by: str, *, cuts_calls: bool
    ) -> StopOrder:
        """Order a stop; it is durable when this returns, and obeyed here at once."""
        made = StopOrder(self._ids.new_id(), scope, name, reason, by, cuts_calls, self._clock.now())
        self._record(ORDER_FORM, made, ORDERED, made.id, STOP_TEXT.encode(made), made.at)
        return made

    def lift(self, stop_id: str, request_id: str, reason: str, by: str) -> str:
        """End a stop for an approved request; return the entry, also where it was ended before."""
        self.require(stop_id, including_lifted=request_id)
        for stored in self._lifts():
            if LIFT_TEXT.decode(stored.entry.payload).request_id == request_id:
                return stored.entry.id
        made = StopLift(stop_id, request_id, reason, by, self._clock.now())
        name = self._ids.new_id()
        self._record(LIFT_FORM, made, LIFTED, name, LIFT_TEXT.encode(made), made.at)
        return name

    def require(self, stop_id: str, including_lifted: str = "") -> None:
        """Raise unless this stop is in force, or was ended by this request."""
        self._stops.look()
        if any(each.id == stop_id for each in self._stops.in_force()):
            return
        lifts = (LIFT_TEXT.decode(each.entry.payload) for each in self._lifts())
        if including_lifted and any(
            each.request_id == including_lifted and each.stop_id == stop_id for each in lifts
        ):
            return
        raise NotFound(f"no stop `{stop_id[:100]}` is in force", hint="`pointsman stop` lists them")

    def _lifts(self) -> list[Stored]:
        with closing(LedgerReader(self._home.database)) as reader:
            return [*reader.of_kind(LIFTED)]

    def _record(
        self, form: SnapshotForm[T], made: T, kind: str, name: str, payload: bytes, at: Instant
    ) -> None:
        recorder = self._decision_recorder.recorder()
        snapshot = form.make(made, self._home.identity.ledger, recorder.key)
        # INVARIANT: what an event names is durable before the event is.
        recorder.record(snapshot_draft(snapshot, at))
        recorder.record(Draft(kind, name, snapshot.id, at, payload))
        self._stops.look()


def _forbids(order: StopOrder, tenant: str, model: str) -> bool:
    if order.scope == "tenant":
        return order.name == tenant
    return order.scope == "all" or order.name == provider_of(model)


def _load(
    reader: LedgerReader, home: Home, form: SnapshotForm[T], text: Form[T], stored: Stored
) -> T:
    """Load what an event names, or raise where it says other than its snapshot."""
    found = load_snapshot(reader, form, stored.entry.ref, home.identity.ledger, home.keys)
    if text.encode(found) != stored.entry.payload:
        raise ValueError(f"`{stored.entry.id}` says other than what was signed")
    return found
