"""Every route under every kind of caller: what may be called, what is seen of another tenant."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway.house import Running
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.access.roles import ROLE_SCOPES, ROLES, SCOPES, Scope
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.serving.route import EVENTS, Route

SECRET: Final = "canary-of-acme-7f3a"
"""Stands in everything that the attacked tenant sends and names."""

NOT_CALLED: Final = frozenset({("POST", "/api/logout")})
OF_THE_COUNCIL: Final = ("/actions", "/jobs", "/api/agents")
"""A council votes on what agents of all tenants ask for, and sees their jobs."""
_NO_KEY: Final = (
    ("without a key", {}),
    ("garbage", {"authorization": "Bearer garbage"}),
    ("a key of no such id", {"x-api-key": f"pk_{'a' * 16}_{'b' * 52}"}),
)
_TRACE: Final = re.compile(r'"(trace_id|timestamp|at|since)":\s*"[^"]*"')


@dataclass(frozen=True)
class Caller:
    """One kind of caller: what its key is, and whether it may see all tenants."""

    name: str
    headers: Mapping[str, str]
    scopes: tuple[Scope, ...] = ()
    role: str = ""
    tenant: str = ""
    sees_all: bool = False


@dataclass
class Tally:
    """What was tried, and what did not hold."""

    tried: int = 0
    of_others: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Victim:
    """What a tenant left behind: names to ask for, and texts that no other may see."""

    names: Mapping[str, tuple[str, ...]]
    canaries: tuple[str, ...]


def callers(live: Running) -> list[Caller]:
    """Make one key of each kind; the attacked tenant is `acme`."""
    revoked, expired = made(live, name="revoked", scopes=["read"]), made(live, name="expired")
    rows = {each["name"]: each["id"] for each in _get(live, "/api/keys")["keys"]}
    live.client.delete(f"/api/keys/{rows['revoked']}", headers=bearer(live.admin))
    live.client.delete(f"/api/keys/{rows['expired']}", headers=bearer(live.admin))
    found = [Caller(name, headers) for name, headers in _NO_KEY]
    found += [Caller("revoked", revoked), Caller("expired", expired)]
    for tenant in ("acme", "globex"):
        for scopes in (("models",), ("read",), ("act",), ("models", "read", "act")):
            headers = made(live, name="key", scopes=scopes, tenant=tenant)
            found.append(Caller(f"{'+'.join(scopes)} of {tenant}", headers, scopes, "", tenant))
    for role in ROLES:
        headers = made(live, name=role, role=role, tenant="globex")
        sees_all = role in {"admin", "auditor"}
        scopes = ROLE_SCOPES[role]
        found.append(Caller(f"{role} of globex", headers, scopes, role, "globex", sees_all))
    for role in ("viewer", "operator", "council"):
        headers = made(live, name=role, role=role, tenant="acme")
        found.append(Caller(f"{role} of acme", headers, ROLE_SCOPES[role], role, "acme"))
    own = made(live, name="alone", scopes=["models", "read", "act"])
    found.append(Caller("its own tenant", own, ("models", "read", "act"), "", "alone"))
    found.append(Caller("admin token", bearer(live.admin), SCOPES, "admin", "", sees_all=True))
    odd = {**made(live, name="odd", scopes=["read"], tenant="globex"), "x-session-id": SECRET}
    found.append(Caller("read of globex that names acme's session", odd, ("read",), "", "globex"))
    both = {**bearer("garbage"), "x-api-key": found[6].headers["authorization"][7:]}
    found.append(Caller("garbage beside a good key", both))
    return found


def victim(live: Running) -> Victim:
    """Have a tenant do all that leaves something to be read."""
    headers = made(live, name="acme", scopes=["models", "read", "act"], tenant="acme")
    key_id = next(e["id"] for e in _get(live, "/api/keys")["keys"] if e["name"] == "acme")
    mine = {**headers, "x-session-id": SECRET}
    told = live.chat(f"hello {SECRET}", headers=mine)
    assert told.status_code == 200, told.text
    turn, decision = told.headers["x-pointsman-turn"], told.headers["x-pointsman-decision"]
    kept = {**mine, "x-pointsman-privacy": "local"}
    local = live.chat(f"hello {SECRET} again", headers=kept).headers["x-pointsman-turn"]
    session = f"{key_id}/{SECRET}"
    for path, body in (
        ("/api/feedback", {"turn_id": turn, "thumbs": "up", "comment": SECRET}),
        (f"/api/sessions/{SECRET}/pin", {"model": "open:big"}),
    ):
        assert live.post(path, body, **headers).status_code == 200
    preview = live.post("/api/route/preview", {"message": SECRET}, **headers).json()["decision_id"]
    request_id = told.headers["x-request-id"]
    job, action = _leave_agents(live)
    names = {
        "/jobs/{id}": (job, SECRET),
        "/actions/{id}": (action,),
        "/api/turns/{id}": (turn, decision, local, preview, request_id, "last"),
        "/api/sessions/{id}": (session,),
    }
    canaries = (SECRET, key_id, turn, decision, local, preview, job, action)
    return Victim(names, tuple(dict.fromkeys(canaries)))


def _leave_agents(live: Running) -> tuple[str, str]:
    """Have an agent's job run and an action asked for; return their ids."""
    acting = made(live, name="acting", role="operator", tenant="acme")
    job = live.post("/jobs", {"job_id": SECRET, "job_seed": "s", "query_text": SECRET}, **acting)
    assert "log_id" in job.json(), job.text
    payload = {"namespace": "n", "key": "k", "value": SECRET}
    asked = {"action_type": "sem_write", "payload": payload, "justification": SECRET}
    told = live.post("/actions", asked, **acting)
    assert told.status_code == 200, told.text
    return job.json()["log_id"], told.json()["request_id"]


def attack(live: Running, who: list[Caller], hurt: Victim, tally: Tally) -> None:
    """Call every route as every caller, with names of the attacked tenant and with unknown ones."""
    for route in ROUTES.values():
        for caller in who:
            for asked, unknown in _paths(route, hurt):
                found = _call(live, route, caller, asked)
                tally.tried += 1
                tally.statuses[found.status_code] += 1
                _check_allowed(route, caller, found.status_code, tally)
                if route.scope == "none" or caller.sees_all or caller.tenant == "acme":
                    continue
                if caller.role == "council" and route.path.startswith(OF_THE_COUNCIL):
                    continue
                tally.of_others += 1
                _check_hidden(route, caller, (asked, found), hurt, tally)
                if unknown:
                    other = _call(live, route, caller, unknown)
                    _check_uniform(route, caller, (asked, found), (unknown, other), tally)


def _paths(route: Route, hurt: Victim) -> Iterator[tuple[str, str]]:
    """Return the paths to ask for, each with one that names nothing."""
    unknown = re.sub(r"\{\w+\}", "01JZZZZZZZZZZZZZZZZZZZZZZZ", route.path)
    prefix = next((each for each in hurt.names if route.path.startswith(each)), None)
    if prefix is None:
        yield unknown, ""
        return
    for name in hurt.names[prefix]:
        quoted = name.replace("/", "%2F")
        none = f"{'q' * 16}%2F{name[17:]}" if "/" in name else _name(unknown)
        # The last turn is each caller's own; scripted providers give the same id to several calls.
        other = (
            "" if name == "last" or name.startswith("req_") else route.path.replace("{id}", none)
        )
        yield route.path.replace("{id}", quoted), other


def _call(live: Running, route: Route, caller: Caller, path: str) -> Any:
    body = {"model": "open:big"} if path.endswith("/pin") else {}
    if path.endswith("/clear-taint"):
        body = {"reason": "because"}
    content = json.dumps(body).encode()
    headers = {**caller.headers, "connection": "close"}
    asked = live.client.build_request(route.method, path, headers=headers, content=content)
    is_long = route.media == EVENTS
    found = live.client.send(asked, stream=is_long)
    if is_long:
        found.close()
        found._content = b""
    return found


def _check_allowed(route: Route, caller: Caller, status: int, tally: Tally) -> None:
    if route.scope == "none" or route.key in NOT_CALLED:
        return
    if not caller.scopes:
        is_right = status == 401
    else:
        is_scoped = route.scope == "any" or route.scope in caller.scopes
        has_role = not caller.role or route.roles.of(caller.role) != "denied"
        if route.call_name and not caller.role:
            acting = "operator" if "act" in caller.scopes else "viewer"
            has_role = route.roles.of(acting) != "denied"
        is_right = (status not in {401, 403}) == (is_scoped and has_role)
    if not is_right:
        tally.faults.append(f"{caller.name}: {' '.join(route.key)} gives {status}")


def _check_hidden(
    route: Route, caller: Caller, answer: tuple[str, Any], hurt: Victim, tally: Tally
) -> None:
    """Note what an answer tells of the attacked tenant, beside the name that was asked for."""
    asked, found = answer
    echoed = found.text.replace(_name(asked), "")
    seen = [each for each in hurt.canaries if each in echoed or each in str(found.headers)]
    if seen:
        tally.faults.append(f"{caller.name}: {' '.join(route.key)} tells {seen}")


def _check_uniform(
    route: Route, caller: Caller, hidden: tuple[str, Any], none: tuple[str, Any], tally: Tally
) -> None:
    """Note where what is another's is answered other than what is not there."""
    if _plain(*hidden) != _plain(*none):
        told = f"{caller.name}: {' '.join(route.key)} tells {hidden[0]} from {none[0]}"
        tally.faults.append(f"{told}: {_plain(*hidden)} {_plain(*none)}")


def _plain(asked: str, found: Any) -> tuple[int, str]:
    text = _TRACE.sub('"\\1":""', found.text).replace(_name(asked), "NAME")
    return found.status_code, text


def _name(path: str) -> str:
    """Return the name in a path."""
    parts = path.split("/")
    at = 3 if parts[1] == "api" else 2
    return "/".join(parts[at : at + 1]).replace("%2F", "/") or "no name"


def _get(live: Running, path: str) -> Any:
    return live.get(path, **bearer(live.admin)).json()
