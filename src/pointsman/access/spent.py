"""What one call cost, as the ledger keeps it, and the sums that follow from it.

The ledger's outcome entries are the truth about spending; the spend store is a sum over them that
can be made again from them at any time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.storage.stores.spend import SpendAmounts, SpendKey, Sums, add_to


class Spent(Struct, frozen=True, forbid_unknown_fields=True):
    """What one call used and cost.

    The three kinds of input are disjoint. `at` is when the money was reserved: it fixes the day.
    `cost_microusd` is None where no price is known; `is_estimated` where usage or a price was
    guessed.
    """

    model: str
    key_id: str
    session_id: str
    workspace: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_microusd: MicroUsd | None
    price_version: str
    is_estimated: bool
    at: Instant


SPENT_FORM = Form(Spent)


def spend_key(spent: Spent) -> SpendKey:
    """Return the sum a call belongs to."""
    return SpendKey(
        spent.at // DAY,
        spent.key_id,
        spent.session_id,
        spent.workspace,
        spent.model,
        spent.price_version,
    )


def spend_amounts(spent: Spent) -> SpendAmounts:
    """Return what a call adds to its sum."""
    return SpendAmounts(
        1,
        int(spent.is_estimated),
        int(spent.cost_microusd is None),
        spent.input_tokens,
        spent.output_tokens,
        spent.cached_input_tokens,
        spent.cache_creation_input_tokens,
        spent.cost_microusd or 0,
    )


def spent_of(entry: Entry) -> Spent | None:
    """Read what an outcome entry says was spent: the member `spent` of its detail."""
    return spent_in(entry.payload) if entry.kind == OUTCOME else None


def spent_in(payload: bytes) -> Spent | None:
    """Read what the payload of an outcome entry says was spent."""
    detail = bytes(OUTCOME_FORM.read(payload).detail)
    if not detail.startswith(b"{"):
        return None
    spent = bytes(_DETAIL.decode(detail).spent)
    return None if spent == b"null" else SPENT_FORM.read(spent)


def rebuild(entries: Iterable[Entry], first_day: int = 0) -> Sums:
    """Add up what ledger entries say was spent, from a day on; an entry counts once."""
    sums: Sums = {}
    seen: set[str] = set()
    for entry in entries:
        spent = spent_of(entry)
        if spent is not None and entry.id not in seen and spent.at // DAY >= first_day:
            seen.add(entry.id)
            add_to(sums, spend_key(spent), spend_amounts(spent))
    return sums


class _Detail(Struct, frozen=True):
    spent: Raw = Raw(b"null")


_DETAIL = msgspec.json.Decoder(_Detail)
