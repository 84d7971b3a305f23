"""Budgets over HTTP: how they stand, and writing them into `routing.yaml`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from pointsman.access.budgets import Standing
from pointsman.access.caps import Cap, Owners, caps_of
from pointsman.access.keys import Principal
from pointsman.errors import NotFound
from pointsman.gateway.access import caller_of, check_reader
from pointsman.gateway.api.admin_shapes import BudgetBody, BudgetRow
from pointsman.gateway.api.bodies import body_as
from pointsman.gateway.api.budgets.text import with_budgets
from pointsman.gateway.api.policies.writing import write_policy
from pointsman.gateway.asgi import Handler, named_parts
from pointsman.gateway.http import Asked, Receive, Send, answer_value
from pointsman.gateway.parts import Parts, check_own_files
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import microusd_text
from pointsman.turns.policy import NO_ROUTING, GivenBudget, RoutingFile, read_policy

_FILE = "routing.yaml"
_ONE = "/api/budgets/{name}"


class BudgetApi:
    """Serves budgets."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._writing = asyncio.Lock()

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/api/budgets"): self.budgets,
            ("POST", "/api/budgets"): self.write,
            ("DELETE", _ONE): self.take_out,
        }

    async def budgets(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell how the budgets stand."""
        check_reader(self._parts, asked)
        await answer_value(send, {"budgets": [*budget_rows(self._parts)]})

    async def write(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Write a budget into the policy; one of the same name is replaced."""
        caller = caller_of(self._parts, asked, "admin")
        given = body_as(asked, BudgetBody)
        budget = GivenBudget(given.name, given.limit_usd, given.per, given.each)
        async with self._writing:
            text, routing = self._read()
            others = tuple(each for each in routing.budgets if each.name != given.name)
            await self._replace(text, (*others, budget), caller)
        await answer_value(send, {"budgets": [*budget_rows(self._parts)]})

    async def take_out(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Take a budget out of the policy."""
        caller = caller_of(self._parts, asked, "admin")
        name = named_parts(_ONE, asked.path)["name"]
        async with self._writing:
            text, routing = self._read()
            others = tuple(each for each in routing.budgets if each.name != name)
            if len(others) == len(routing.budgets):
                raise NotFound(f"no budget of `{_FILE}` is called `{name[:100]}`")
            await self._replace(text, others, caller)
        await answer_value(send, {"budgets": [*budget_rows(self._parts)]})

    def _read(self) -> tuple[str, RoutingFile]:
        text = self._parts.pointsman.files.text(_FILE)
        if text is None:
            return "", NO_ROUTING
        return text.decode("utf-8"), self._checked(text)

    def _checked(self, text: bytes) -> RoutingFile:
        files = self._parts.pointsman.files
        return read_policy(text, _FILE, files.known(files.in_force().models), "/")

    async def _replace(
        self, text: str, budgets: tuple[GivenBudget, ...], caller: Principal
    ) -> None:
        """Write the file anew, if what comes out is valid."""
        check_own_files(self._parts)
        changed = with_budgets(text, budgets).encode("utf-8", "surrogatepass")
        self._checked(changed)
        await write_policy(self._parts, _FILE, changed, caller)


def budget_rows(parts: Parts) -> Iterator[BudgetRow]:
    """Give the budgets of the policy in force, then those of keys that are known."""
    for cap in caps_of(parts.pointsman.in_force().ready.policy.budgets):
        yield _row(cap, _standing(parts, cap, Owners()) if cap.each == "all" else None)
    for key_id, key in parts.keyring.keys(parts.pointsman.clock.now()).known.items():
        if not key.is_revoked:
            for cap in key.principal.caps:
                yield _row(cap, _standing(parts, cap, Owners(key_id)), key_id)


def _standing(parts: Parts, cap: Cap, owners: Owners) -> Standing | None:
    found = parts.budgets.standings(owners, (cap,), parts.pointsman.clock.now())
    return found[0] if found else None


def _row(cap: Cap, standing: Standing | None, key_id: str | None = None) -> BudgetRow:
    resets = None if standing is None else standing.resets_at
    return BudgetRow(
        name=cap.name,
        limit_usd=microusd_text(cap.limit_microusd),
        per=cap.per,
        each=cap.each,
        left_usd=None if standing is None else microusd_text(standing.left_microusd),
        resets_at=None if resets is None else instant_text(resets),
        key_id=key_id,
    )
