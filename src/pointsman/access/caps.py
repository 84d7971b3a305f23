"""Caps on spending and the accounts they are checked against. Days and months are those of UTC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.instant import DAY, Instant, instant_text, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.turns.policy import Budget

Per = Literal["day", "month", "total"]
Each = Literal["all", "key", "session", "workspace", "tenant"]

Account = tuple[Each, str, str, int, int]
"""The calls that are added up, of one owner from one day up to another: scope, key, then session,
workspace or tenant, the first day that counts and the first that does not.

A session belongs to its key: two callers may give the same name to theirs. A plain tuple, because
a dozen are looked up for every call.
"""

EVER = MAX_INT
"""The day no account outlives: where one that never starts anew ends."""


class Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """How much may be spent in which time, as it belongs to a key."""

    limit_microusd: MicroUsd
    per: Per


class Cap(Struct, frozen=True, forbid_unknown_fields=True):
    """A limit and its scope: everything, or each key, session and so on."""

    name: str
    limit_microusd: MicroUsd
    per: Per
    each: Each = "all"


class Owners(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose money a call spends; empty where there is no such owner."""

    key_id: str = ""
    session_id: str = ""
    workspace: str = ""
    tenant: str = ""


class Windows(Struct, frozen=True):
    """The day and the month an instant lies in, as days since 1970."""

    day: int
    month_first: int
    month_end: int

    def span(self, per: Per) -> tuple[int, int]:
        """Return the first day that counts and the first that does not."""
        if per == "day":
            return self.day, self.day + 1
        if per == "month":
            return self.month_first, self.month_end
        return 0, EVER


def windows_at(at: Instant) -> Windows:
    """Return the windows an instant lies in."""
    return _windows(at // DAY)


def caps_of(budgets: Iterable[Budget]) -> tuple[Cap, ...]:
    """Return the caps that `routing.yaml` sets."""
    return tuple(Cap(each.name, each.limit_microusd, each.per, each.each) for each in budgets)


def key_caps(name: str, limits: Iterable[Limit]) -> tuple[Cap, ...]:
    """Return the caps that belong to a key."""
    return tuple(
        Cap(_key_cap_name(name, limit.per), limit.limit_microusd, limit.per, "key")
        for limit in limits
    )


def _key_cap_name(name: str, per: Per) -> str:
    return f"key {name} in total" if per == "total" else f"key {name} per {per}"


def account_of(cap: Cap, owners: Owners, windows: Windows) -> Account | None:
    """Return the account a cap is checked against; None where the call has no such owner."""
    first, end = windows.span(cap.per)
    match cap.each:
        case "all":
            return ("all", "", "", first, end)
        case "key" if owners.key_id:
            return ("key", owners.key_id, "", first, end)
        case "session" if owners.session_id:
            return ("session", owners.key_id, owners.session_id, first, end)
        case "workspace" if owners.workspace:
            return ("workspace", "", owners.workspace, first, end)
        case "tenant" if owners.tenant:
            return ("tenant", "", owners.tenant, first, end)
    return None


def accounts_of(owners: Owners, windows: Windows) -> Iterator[Account]:
    """Return every account that a call of these owners could be counted in."""
    key, session, workspace = owners.key_id, owners.session_id, owners.workspace
    tenant = owners.tenant
    day, month = windows.day, (windows.month_first, windows.month_end)
    for first, end in ((day, day + 1), month, (0, EVER)):
        yield ("all", "", "", first, end)
        yield ("key", key, "", first, end)
        yield ("session", key, session, first, end)
        yield ("workspace", "", workspace, first, end)
        yield ("tenant", "", tenant, first, end)


def is_counted(account: Account, owners: Owners, day: int) -> bool:
    """Tell whether what these owners spend on a day belongs to an account."""
    each, key_id, owner, first, end = account
    if not first <= day < end:
        return False
    match each:
        case "all":
            return True
        case "key":
            return key_id == owners.key_id
        case "session":
            return owner == owners.session_id and key_id == owners.key_id
        case "workspace":
            return owner == owners.workspace
        case "tenant":
            return owner == owners.tenant


def resets_at(account: Account) -> Instant | None:
    """Return the instant at which an account starts anew; None for never."""
    end = account[4]
    return None if end == EVER else Instant(end * DAY)


@lru_cache(maxsize=16)
def _windows(day: int) -> Windows:
    text = instant_text(Instant(day * DAY))
    year, month = int(text[:4]), int(text[5:7])
    following = f"{year + month // 12:04d}-{month % 12 + 1:02d}"
    return Windows(day, _first_day(text[:7]), _first_day(following))


def _first_day(month: str) -> int:
    return read_instant(f"{month}-01T00:00:00Z") // DAY
