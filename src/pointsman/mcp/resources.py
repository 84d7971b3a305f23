"""What an agent may read, and the prompts its user may pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Struct, structs

from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.audit.turn_shapes import turn_answer, turn_row
from pointsman.errors import AccessError, InputError, NotFound
from pointsman.kernel.instant import instant_text
from pointsman.mcp.turn_tools import MOST_LISTED, READ_TURN, READ_TURNS
from pointsman.mcp.visitor import Visitor
from pointsman.operations.starter import starter_text
from pointsman.signals.detectors import detect
from pointsman.signals.kinds import KINDS
from pointsman.turns.explain import to_screen
from pointsman.turns.registry.models import Model
from pointsman.workflows.branch_log import decision_value

LONGEST: Final = 4_000


class Argument(Struct, frozen=True):
    """Something a prompt is filled with."""

    name: str
    told: str
    is_required: bool = False


class Prompt(Struct, frozen=True):
    """A prompt in a list."""

    name: str
    title: str
    told: str
    arguments: tuple[Argument, ...]


class Part(Struct, frozen=True):
    """A text of a filled prompt; with an address, it is what stands there."""

    text: str
    uri: str = ""
    media: str = "text/plain"


WHY: Final = Prompt(
    "why_this_model",
    "Why this model?",
    "explain in plain words why a turn went to its model, and what would have changed that",
    (Argument("turn", "a turn's or decision's id; the newest turn without it"),),
)
RULE: Final = Prompt(
    "write_a_rule",
    "Write a routing rule",
    "turn a wish into a rule of routing.yaml, and try it before it is saved",
    (Argument("wish", "what should go to which model, in your words", is_required=True),),
)
PROMPTS: Final = (WHY, RULE)

_WHY: Final = (
    "Below is the why-screen of a recorded turn. Explain in plain words which model was chosen, by "
    "which slot of the chain, and which model served, then go through the candidates that lost and "
    "the calls that failed and say why. End with the one change (a rule, a budget, a capability) "
    "that would have sent it elsewhere. Say nothing that the screen does not show; route_explain "
    "has the whole chain."
)
_RULE: Final = (
    "Write one rule for `routing.yaml` that does what this wish asks for:\n\n{wish}\n\nUse only "
    "predicates that the starter file below shows. Put it where it wins over the rules it must win "
    "over: they are tried in order. Then try it in your head on two messages it should catch and "
    "two it should not, check with route_preview which model takes them today, and show the rule "
    "with the line it belongs after. Do not save it: `pointsman rules check`, `rules test` and "
    "`backtest` come first."
)


class Prompts:
    """The prompts of one home."""

    def __init__(self, pointsman: Pointsman, resources: Resources) -> None:
        self._pointsman = pointsman
        self._resources = resources

    def fill(self, name: str, given: Mapping[str, str], visitor: Visitor) -> list[Part]:
        """Fill a prompt, with what its reader may see."""
        if name == WHY.name:
            reach = visitor.admit(READ_TURN).caller.reach
            return self._why(given.get("turn") or "last", reach)
        if name == RULE.name:
            return self._rule(given.get("wish", ""), visitor)
        raise NotFound(f"there is no prompt `{name[:100]}`", hint="prompts/list names them")

    def _why(self, turn: str, reach: str | None) -> list[Part]:
        story = self._pointsman.read_turn(turn, reach)
        return [Part(_WHY), Part(to_screen(story), TURN + story.first.turn_id)]

    def _rule(self, wish: str, visitor: Visitor) -> list[Part]:
        if not wish.strip():
            raise InputError("`wish` is missing", hint="say what should go to which model")
        if len(wish) > LONGEST:
            raise InputError(f"`wish` is longer than {LONGEST} characters")
        starter = starter_text("routing.yaml").decode()
        parts = [Part(_RULE.format(wish=wish)), Part(f"The starter file:\n\n{starter}")]
        found = self._resources.find(POLICY + "routing")
        try:
            by = visitor.admit(found.route)
        except AccessError:
            return parts
        return [*parts, Part(found.read(by.caller.reach).text, POLICY + "routing", YAML)]


SCHEME: Final = "pointsman://"
JSON: Final = "application/json"
YAML: Final = "application/yaml"

READ_POLICY: Final = ("GET", "/api/policies/{name}")
READ_MODELS: Final = ("GET", "/api/providers")
READ_STOPS: Final = ("GET", "/api/stops")
READ_DECISION: Final = ("GET", "/api/workflow-decisions/{id}")

FILES: Final = {
    "routing": "the rules that choose models, as written",
    "placement": "what may leave this machine, as written",
    "agents": "modules, edges and the router's constants, as written",
}
STOPS: Final = f"{SCHEME}stops"
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
    read: Callable[[str | None], Read]
    """Takes the tenant whose records may be read; None for those of all."""


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

    def stops(self) -> list[ResourceRow]:
        """List the stops in force."""
        return [ResourceRow(STOPS, "stops", "orders that no model is called, and why", JSON)]

    def decisions(self) -> list[ResourceRow]:
        """List the workflow decisions in force."""
        return [
            ResourceRow(DECISION + quote(name, safe=""), name, each.name or name, JSON)
            for name, each in self._pointsman.branching.in_force().decisions.items()
        ]

    def turns(self, reach: str | None) -> list[ResourceRow]:
        """List the latest turns, and the list of them."""
        rows = [turn_row(each) for each in self._pointsman.recent(MOST_LISTED, tenant=reach)]
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
        if uri == STOPS:
            return ResourceReader(READ_STOPS, self._stops)
        for prefix, route, read in (
            (TURN, READ_TURN, self._turn),
            (DECISION, READ_DECISION, self._decision),
            (POLICY, READ_POLICY, self._policy),
        ):
            name = unquote(uri.removeprefix(prefix))
            if uri.startswith(prefix) and name:
                return ResourceReader(route, partial(read, name))
        raise NotFound(f"there is no resource `{uri[:200]}`", hint="resources/list names them")

    def _turns(self, reach: str | None) -> Read:
        rows = [turn_row(each) for each in self._pointsman.recent(MOST_LISTED, tenant=reach)]
        return _json({"turns": rows})

    def _turn(self, name: str, reach: str | None) -> Read:
        return _json(turn_answer(self._pointsman.read_turn(name, reach)))

    def _models(self, _reach: str | None) -> Read:
        """Return the models without their providers' addresses, headers and keys."""
        ready = self._pointsman.in_force().ready
        models = [{"id": name, **_known_fields(each)} for name, each in ready.models.items()]
        return _json({"models": models})

    def _stops(self, reach: str | None) -> Read:
        found = self._pointsman.stops.seen_by(reach)
        rows = [{**structs.asdict(each), "at": instant_text(each.at)} for each in found]
        return _json({"stops": rows})

    def _decision(self, name: str, _reach: str | None) -> Read:
        in_force = self._pointsman.branching.in_force()
        ready = in_force.ready.decision(name)
        source = in_force.sources.get(name, "")
        return _json(decision_value(ready.decision, source, in_force.policy_id(name)))

    def _policy(self, name: str, _reach: str | None) -> Read:
        if name not in FILES:
            raise NotFound(f"`{name[:100]}` is no policy", hint=", ".join([*FILES, "models"]))
        text = self._pointsman.files.text(f"{name}.yaml")
        if text is None:
            return Read(f"# {name}.yaml is not there: built-in defaults are in force\n", YAML)
        return Read(_without_secrets(text.decode("utf-8", "replace")), YAML)


def _line(model: str, at: str) -> str:
    return f"{model or 'no model'} at {at}"


def _known_fields(model: Model) -> dict[str, object]:
    """Return the fields of a model that are set."""
    fields: dict[str, object] = structs.asdict(model)
    return {name: value for name, value in fields.items() if value is not UNSET}


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
