"""Accounts as shared counts name them: by a key that tells nothing and is never long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from pointsman.access.caps import (
    EVER,
    Account,
    Cap,
    Owners,
    Windows,
    account_of,
    accounts_of,
    windows_at,
)
from pointsman.kernel.instant import DAY, SECOND, Instant
from pointsman.storage.reserves import AccountRow

KEPT_DAYS = 2
"""How long an account that ended is still counted: a call may end long after it began."""


@lru_cache(maxsize=65_536)
def account_row(account: Account) -> AccountRow:
    """Return an account as shared counts know it."""
    each, key_id, owner, first, end = account
    whose = hashlib.sha256(f"{len(key_id)}:{key_id}{owner}".encode("utf-8", "surrogatepass"))
    name = f"{each}:{first}:{end}:{whose.hexdigest()[:32]}"
    return AccountRow(name, (each, key_id, owner), first, end)


def names_of(owners: Owners, at: Instant) -> tuple[str, ...]:
    """Name every account that a call of these owners counts in, in one order for all callers."""
    return _names(owners, windows_at(at))


@lru_cache(maxsize=4096)
def _names(owners: Owners, windows: Windows) -> tuple[str, ...]:
    has = {
        "all": True,
        "key": bool(owners.key_id),
        "session": bool(owners.session_id),
        "workspace": bool(owners.workspace),
        "tenant": bool(owners.tenant),
    }
    found = (account_row(each).name for each in accounts_of(owners, windows) if has[each[0]])
    return tuple(sorted(found))


def accounts_of_caps(owners: Owners, caps: Iterable[Cap], at: Instant) -> list[tuple[Cap, Account]]:
    """Return the caps that apply to a call, each with the account it is checked against."""
    windows = windows_at(at)
    found = ((cap, account_of(cap, owners, windows)) for cap in caps)
    return [(cap, account) for cap, account in found if account is not None]


def expires_at_s(account: AccountRow) -> int:
    """Return the time at which an account may be forgotten, in seconds since 1970; 0 for never."""
    return 0 if account.end_day == EVER else (account.end_day + KEPT_DAYS) * (DAY // SECOND)
