"""What an agent may read: the policies in force, and the turns that were decided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, structs

from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.audit.turn_shapes import turn_answer
from pointsman.errors import NotFound
from pointsman.mcp.turn_tools import MOST_LISTED, READ_TURN, READ_TURNS, turn_row
from pointsman.signals.detectors import detect
from pointsman.signals.kinds import KINDS
from pointsman.workflows.branch_view import decision_value

SCHEME: Final = "pointsman://"
JSON: Final = "application/json"
YAML: Final = "application/yaml"

READ_POLICY: Final = ("GET", "/api/policies/{name}")
READ_MODELS: Final = ("GET", "/api/providers")
READ_DECISION: Final = ("GET", "/api/workflow-decisions/{id}")

FILES: Final = {
    "routing": "the rules that choose models, as written",
    "placement": "what may leave this machine, as written",
    "agents": "modules, edges and the router's constants, as written",
}
TURN: Final = f"{SCHEME}turn/"
POLICY: Final = f"{SCHEME}policy/"
DECISION: Final = f"{POLICY}decisions/"

_SECRETS: Final = frozenset(each.name for each in KINDS if each.group == "secret")
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class ResourceRow(Struct, frozen=True):
    """A resource in a list, or a template where its address holds a name in braces."""

    uri: str
    name: str
    told: str
    media: str


class Read(Struct, frozen=True):
    """A resource as it is now."""

    text: str
    media: str


class ResourceReader(Struct, frozen=True):
    """The resource at an address: the route whose access allows reading it, and its reader."""

    route: RouteKey
    read: Callable[[], Read]


TEMPLATES: Final = (
    ResourceRow(TURN + "{id}", "turn", "why a turn went to its model; `last` is the newest", JSON),
    ResourceRow(DECISION + "{id}", "decision", "a workflow's decision, as it is in force", JSON),
)


class Resources:
    """The resources of one home."""

    def __init__(self, pointsman: Pointsman) -> None:
        self._pointsman = pointsman

    def policies(self) -> list[ResourceRow]:
        """List the policy files."""
        return [
            ResourceRow(POLICY + name, f"{name}.yaml", told, YAML) for name, told in FILES.items()
        ]

    def models(self) -> list[ResourceRow]:
        """List the models."""
        return [ResourceRow(POLICY + "models", "models", "models, their tiers and prices", JSON)]

    def decisions(self) -> list[ResourceRow]:
        """List the workflow decisions in force."""
        return [
            ResourceRow(DECISION + quote(name, safe=""), name, each.name or name, JSON)
            for name, each in self._pointsman.branching.in_force().decisions.items()
        ]

    def turns(self) -> list[ResourceRow]:
        """List the latest turns, and the list of them."""
        rows = [turn_row(each) for each in self._pointsman.recent(MOST_LISTED)]
        whole = ResourceRow(f"{SCHEME}turns", "turns", "the latest turns, the newest first", JSON)
        return [
            whole,
            *(
                ResourceRow(
                    TURN + each.turn_id, each.turn_id, _line(each.chosen_model, each.at), JSON
                )
                for each in rows
            ),
        ]

    def find(self, uri: str) -> ResourceReader:
        """Find out what an address leads to, or raise that it leads nowhere."""
        if uri == f"{SCHEME}turns":
            return ResourceReader(READ_TURNS, self._turns)
        if uri == POLICY + "models":
            return ResourceReader(READ_MODELS, self._models)
        for prefix, route, read in (
            (TURN, READ_TURN, self._turn),
            (DECISION, READ_DECISION, self._decision),
            (POLICY, READ_POLICY, self._policy),
        ):
            name = unquote(uri.removeprefix(prefix))
            if uri.startswith(prefix) and name:
                return ResourceReader(route, partial(read, name))
        raise NotFound(f"there is no resource `{uri[:200]}`", hint="resources/list names them")

    def _turns(self) -> Read:
        rows = [turn_row(each) for each in self._pointsman.recent(MOST_LISTED)]
        return _json({"turns": rows})

    def _turn(self, name: str) -> Read:
        return _json(turn_answer(self._pointsman.read_turn(name)))

    def _models(self) -> Read:
        """Return the models without their providers' addresses, headers and keys."""
        ready = self._pointsman.in_force().ready
        models = [{"id": name, **structs.asdict(each)} for name, each in ready.models.items()]
        return _json({"models": models})

    def _decision(self, name: str) -> Read:
        in_force = self._pointsman.branching.in_force()
        ready = in_force.ready.decision(name)
        source = in_force.sources.get(name, "")
        return _json(decision_value(ready.decision, source, in_force.policy_id(name)))

    def _policy(self, name: str) -> Read:
        if name not in FILES:
            raise NotFound(f"`{name[:100]}` is no policy", hint=", ".join([*FILES, "models"]))
        text = self._pointsman.files.text(f"{name}.yaml")
        if text is None:
            return Read(f"# {name}.yaml is not there: built-in defaults are in force\n", YAML)
        return Read(_without_secrets(text.decode("utf-8", "replace")), YAML)


def _line(model: str, at: str) -> str:
    return f"{model or 'no model'} at {at}"


def _json(value: object) -> Read:
    return Read(_ENCODER.encode(value).decode(), JSON)


def _without_secrets(text: str) -> str:
    """Leave out what looks like a secret: a file may hold one that belongs in the environment."""
    kept, end = [], 0
    for hit in detect(text):
        if hit.kind in _SECRETS:
            kept += [text[end : hit.start], f"[{hit.kind}]"]
            end = hit.end
    return "".join((*kept, text[end:]))
