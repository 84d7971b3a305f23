"""Budgets over HTTP: how they stand, and writing them into `routing.yaml`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated, Literal

import yaml
from msgspec import Meta, Struct

from pointsman.access.budgets import Standing
from pointsman.access.caps import Cap, Each, Owners, Per, caps_of
from pointsman.access.keys import Principal
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import NotFound, NotPermitted
from pointsman.gateway.api.policies.writing import write_policy
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices, check_own_files
from pointsman.kernel.instant import DAY, EPOCH, LATEST, instant_text
from pointsman.kernel.literal import Usd
from pointsman.kernel.number import microusd_text
from pointsman.storage.place import StorePlace
from pointsman.storage.stores.spend import SPEND, By, SpendQuery, SpendReader, Total
from pointsman.turns.policy import NO_ROUTING, GivenBudget, RoutingFile, read_policy

_KEY = "budgets"


def with_budgets(text: str, budgets: Sequence[GivenBudget]) -> str:
    """Return a valid `routing.yaml` with other budgets; comments among the old ones are lost."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return f"{_end_line(text)}schema_version: 1\n{_block(budgets)}"
    for key, value in root.value:
        if key.value == _KEY:
            return _replace(text, root, (key, value), budgets)
    if root.flow_style:
        at = root.start_mark.index + 1
        comma = ", " if root.value else ""
        return f'{text[:at]}"{_KEY}": {_list(budgets)}{comma}{text[at:]}'
    return f"{_end_line(text)}{_block(budgets)}"


def _replace(
    text: str,
    root: yaml.MappingNode,
    member: tuple[yaml.Node, yaml.Node],
    budgets: Sequence[GivenBudget],
) -> str:
    key, value = member
    if root.flow_style:
        return text[: value.start_mark.index] + _list(budgets) + text[value.end_mark.index :]
    start, end = key.start_mark.index, value.end_mark.index
    kept = _end_line(text[start:end]).splitlines(keepends=True)
    # A list ends where the next key begins: what stands between belongs to that key.
    last = max((at for at, line in enumerate(kept) if _says_something(line)), default=0)
    rest = text[end:] if text[start:end].endswith("\n") else text[end:].removeprefix("\n")
    return text[:start] + _block(budgets) + "".join(kept[last + 1 :]) + rest


def _says_something(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def _block(budgets: Sequence[GivenBudget]) -> str:
    if not budgets:
        return f"{_KEY}: []\n"
    return "".join([f"{_KEY}:\n", *(f"  - {_to_json(each)}\n" for each in budgets)])


def _list(budgets: Sequence[GivenBudget]) -> str:
    return f"[{', '.join(map(_to_json, budgets))}]"


def _to_json(budget: GivenBudget) -> str:
    """Write a budget as JSON, which is YAML; the amount as a text keeps every digit."""
    value = {
        "name": budget.name,
        "limit_usd": f"{budget.limit_usd:f}",
        "per": budget.per,
        "each": budget.each,
    }
    return json.dumps(value, ensure_ascii=False)


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


_FILE = "routing.yaml"
_ONE = "/api/budgets/{name}"


class BudgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A budget of `routing.yaml`; one of the same name is replaced."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    limit_usd: Usd
    per: Literal["day", "month"] = "day"
    each: Each = "all"


class BudgetRow(Struct, frozen=True):
    """A budget; the rest is told where it is counted over all calls or belongs to a key."""

    name: str
    limit_usd: str
    per: Per
    each: Each
    left_usd: str | None
    resets_at: InstantText | None
    key_id: str | None = None


class BudgetsAnswer(Struct, frozen=True):
    """The budgets of the policy in force and of keys."""

    budgets: tuple[BudgetRow, ...]


class CostAnswer(Struct, frozen=True):
    """The money spent, in millionths of a dollar."""

    by_all: tuple[Total, ...] = ()
    by_model: tuple[Total, ...] = ()
    by_key: tuple[Total, ...] = ()
    by_session: tuple[Total, ...] = ()
    by_workspace: tuple[Total, ...] = ()
    by_day: tuple[Total, ...] = ()
    by_tenant: tuple[Total, ...] = ()


class BudgetApi:
    """Serves budgets."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._writing = asyncio.Lock()

    async def list_budgets(self, request: ApiRequest) -> BudgetsAnswer:
        """Tell how the budgets stand."""
        return self._answer(request.caller)

    async def write_budget(self, request: ApiRequest) -> BudgetsAnswer:
        """Write a budget into the policy; one of the same name is replaced."""
        caller = request.caller
        given = request.body_as(BudgetBody)
        budget = GivenBudget(given.name, given.limit_usd, given.per, given.each)
        async with self._writing:
            text, routing = self._read()
            others = tuple(each for each in routing.budgets if each.name != given.name)
            await self._replace(text, (*others, budget), caller)
        return self._answer(caller)

    async def remove_budget(self, request: ApiRequest) -> BudgetsAnswer:
        """Take a budget out of the policy."""
        caller = request.caller
        name = request.part("name")
        async with self._writing:
            text, routing = self._read()
            others = tuple(each for each in routing.budgets if each.name != name)
            if len(others) == len(routing.budgets):
                raise NotFound(f"no budget of `{_FILE}` is called `{name[:100]}`")
            await self._replace(text, others, caller)
        return self._answer(caller)

    def _answer(self, caller: Principal) -> BudgetsAnswer:
        return BudgetsAnswer(tuple(budget_rows(self._parts, caller.reach)))

    async def show_cost(self, request: ApiRequest) -> dict[str, list[Total]]:
        """Return the money spent, by model, key, session, workspace, day and tenant."""
        place = self._parts.pointsman.home.place(SPEND)
        reach, tenant = request.caller.reach, request.parameter("tenant") or None
        if reach is not None and tenant not in {None, reach}:
            raise NotPermitted("this key sees its own tenant alone")
        asked = SpendQuery(
            session_id=request.parameter("session") or None,
            key_id=request.parameter("key") or None,
            first_day=request.instant("since", EPOCH) // DAY,
            end_day=-(-request.instant("before", LATEST) // DAY),
            tenant=reach or tenant,
        )
        return await in_thread(lambda: _read_cost(place, asked))

    def _read(self) -> tuple[str, RoutingFile]:
        text = self._parts.pointsman.files.text(_FILE)
        if text is None:
            return "", NO_ROUTING
        return text.decode("utf-8"), self._parse(text)

    def _parse(self, text: bytes) -> RoutingFile:
        files = self._parts.pointsman.files
        known = files.known_models(files.in_force().models)
        return read_policy(text, _FILE, known, "/", tables=files.routing_tables())

    async def _replace(
        self, text: str, budgets: tuple[GivenBudget, ...], caller: Principal
    ) -> None:
        """Write the file anew, if the result is valid."""
        check_own_files(self._parts)
        changed = with_budgets(text, budgets).encode("utf-8", "surrogatepass")
        self._parse(changed)
        await write_policy(self._parts, _FILE, changed, caller)


def _read_cost(place: StorePlace, asked: SpendQuery) -> dict[str, list[Total]]:
    if not place.exists():
        return {}
    with closing(SpendReader(place)) as reader:
        kinds: tuple[By, ...] = ("all", "model", "key", "session", "workspace", "day", "tenant")
        return {f"by_{kind}": reader.totals(kind, asked) for kind in kinds}


def budget_rows(parts: GatewayServices, reach: str | None) -> Iterator[BudgetRow]:
    """Return the budgets of the policy in force, then those of the keys that may be seen."""
    for cap in caps_of(parts.pointsman.in_force().ready.policy.budgets):
        # One that each tenant has stands for the caller as its own.
        own = Owners(tenant=reach or "")
        is_told = cap.each == "all" or (cap.each == "tenant" and reach is not None)
        yield _row(cap, _standing(parts, cap, own) if is_told else None)
    for key_id, key in parts.keyring.keys(parts.pointsman.clock.now()).known.items():
        if not key.is_revoked and reach in {None, key.principal.tenant}:
            for cap in key.principal.caps:
                yield _row(cap, _standing(parts, cap, Owners(key_id)), key_id)


def _standing(parts: GatewayServices, cap: Cap, owners: Owners) -> Standing | None:
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
