"""Services shared by a process's model calls, and the record of how a call ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from pointsman.access.budgets import BudgetPort
from pointsman.access.charges import Quote
from pointsman.access.spent import Spent
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import Names, OutcomeRecord
from pointsman.providers.port import Deadlines
from pointsman.providers.registry.providers import LiveProviders
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.health import LiveHealth
from pointsman.storage.policies.settings import Settings

if TYPE_CHECKING:
    from pointsman.calls.model_call import ModelCall


ABSURD_CHARGE: Final = "event.spend.absurd"
"""A provider's bill that is out of all proportion to the estimate; `ref` is the decision."""


OVER_BUDGET: Final = "over_budget"
"""The class of a call that was never made, because its budget had too little left by then."""


class CallEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """The detail of a call's outcome entry; `spent` is None where nothing is charged.

    A call that was refused its money before it was made has no attempts.
    """

    model: str
    location: str
    number: int
    is_stream: bool
    status: int
    error_class: str
    attempts: int
    stop_reason: str
    elapsed_us: int
    first_byte_us: int
    spent: Spent | None
    request_id: str | UnsetType = UNSET
    """The provider's own id of the request, where it told one: its caller may know no other."""


class AbsurdCharge(Struct, frozen=True, forbid_unknown_fields=True):
    """A bill beside what the call was estimated to cost at most; None where no price is known."""

    model: str
    estimated_microusd: MicroUsd | None
    charged_microusd: MicroUsd | None


END_FORM = Form(CallEnd)
ABSURD_FORM = Form(AbsurdCharge)


def outcome_of(end: CallEnd) -> OutcomeRecord:
    """Return an end as the ledger's outcome."""
    return OutcomeRecord("failed" if end.error_class else "done", Raw(END_FORM.encode(end)))


def charge_alarm_draft(names: Names, quote: Quote, end: CallEnd) -> Draft:
    """Make the entry that raises the alarm about a bill."""
    charged = None if end.spent is None else end.spent.cost_microusd
    told = AbsurdCharge(end.model, quote.amount_microusd, charged)
    return Draft(ABSURD_CHARGE, names.id, names.ref, names.at, ABSURD_FORM.encode(told))


class CallListener(Protocol):
    """Learns how every call of a process ended: turns, shadow runs, judges, conversations alike."""

    def call_ended(self, call: ModelCall, end: CallEnd, at: Instant) -> None:
        """Count the call, and tell of it. Does not wait."""
        ...

    def absurd_charge(self, call: ModelCall, end: CallEnd) -> None:
        """Raise the alarm about a bill that is out of all proportion to its estimate."""
        ...


class CallServices(Struct, frozen=True):
    """The parts that every call uses."""

    desk: DecisionRecorder
    clock: Clock
    ids: IdSource
    price_table_id: str
    providers: LiveProviders
    health: LiveHealth
    budgets: BudgetPort
    deadlines: Callable[[], Deadlines]
    listener: CallListener | None = None
    run_blocking: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    """Runs blocking network calls in a thread; None where budgets are kept in this process."""


def deadlines_of(settings: Settings) -> Deadlines:
    """Return how long a provider may take."""
    limits = settings.limits
    return Deadlines(limits.connect_s, limits.head_s, limits.idle_s, limits.total_s)
