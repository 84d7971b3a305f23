"""Holding reservations again that were freed while a replica was thought dead."""

from __future__ import annotations

from pointsman.access.folding import Folding
from pointsman.access.shared_budgets import SharedBudgets
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.reserves import Reserves


def hold_again(
    budgets: SharedBudgets, folding: Folding, durable: PostgresReserves, counts: Reserves
) -> None:
    """Reserve again everything that this process holds, whatever the limits are. Blocks.

    Reservations still being asked for are left out: no caller was told yet that they hold. A call
    whose end is in the ledger is counted as spent: to hold its money, too, would refuse callers who
    have it. One that ends after this look frees what is held by being counted.
    """
    open_holds = budgets.open_holds
    for each in open_holds:
        counts.reserve(each, ())
    ended = [each.id for each in open_holds if durable.is_recorded(each.id)]
    if ended:
        folding.catch_up_all()
        budgets.mark_counted(ended)
        counts.give_back(ended)
