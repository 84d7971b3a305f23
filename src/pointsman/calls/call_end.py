"""The record of how a call ended, and the alarm about a bill; reading them needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from pointsman.access.book import Spent
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import Names
from pointsman.providers.key_choice import KeyChoice

if TYPE_CHECKING:
    from pointsman.access.charges import Quote

ABSURD_CHARGE: Final = "event.spend.absurd"
"""A provider's bill that is out of all proportion to the estimate; `ref` is the decision."""


OVER_BUDGET: Final = "over_budget"
"""The class of a call that was never made, because its budget had too little left by then."""

CANCELLED: Final = "cancelled"
"""The class of a call that its user or caller gave up."""

STOPPED: Final = "stopped"
"""The class of a call that an order forbade, or cut off."""


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
    key_choice: KeyChoice | UnsetType = UNSET
    """How one of the provider's several keys was chosen."""
    deployment_choice: KeyChoice | UnsetType = UNSET
    """How one of the model's several deployments was chosen."""


class AbsurdCharge(Struct, frozen=True, forbid_unknown_fields=True):
    """A bill beside what the call was estimated to cost at most; None where no price is known."""

    model: str
    estimated_microusd: MicroUsd | None
    charged_microusd: MicroUsd | None


END_FORM = Form(CallEnd)
ABSURD_FORM = Form(AbsurdCharge)


def charge_alarm_draft(names: Names, quote: Quote, end: CallEnd) -> Draft:
    """Make the entry that raises the alarm about a bill."""
    charged = None if end.spent is None else end.spent.cost_microusd
    told = AbsurdCharge(end.model, quote.amount_microusd, charged)
    return Draft(ABSURD_CHARGE, names.id, names.ref, names.at, ABSURD_FORM.encode(told))
