"""Gathering for a conversation: everything a turn stands on, read once before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from pointsman.conversations.conversation_house import House, Kit
from pointsman.conversations.driver import Seat
from pointsman.providers.messages import (
    Image,
    Message,
    OutputFormat,
    Request,
    Text,
    Tool,
)
from pointsman.recording.gathering import Around, look_of
from pointsman.recording.placing import Turn as Placed
from pointsman.recording.ruling import placed, policies_of
from pointsman.sessions.history import History, Manner
from pointsman.sessions.prompts import planner_prompt
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.transcript import estimated_tokens, everything
from pointsman.sessions.turn import Turn, TurnLimits
from pointsman.signals.tokens import tokenizer_of
from pointsman.storage.policies.policies import InForce
from pointsman.turns.chain.override import Mode, split_override
from pointsman.turns.facts import ANY_MODEL, Privacy, TurnFacts
from pointsman.turns.learning.fingerprint import FINGERPRINT_FORM, Surroundings
from pointsman.turns.registry.models import Tier


class Said(Struct, frozen=True):
    """What begins a turn: a user's message, or a worker's task with what was handed over."""

    text: str
    more: tuple[Text | Image, ...] = ()
    tier: Tier | None = None
    output: OutputFormat | None = None
    parent_tool_use_id: str | None = None
    most_output_tokens: int | None = None


class Standing(Struct, frozen=True):
    """How a session stands when a turn begins."""

    history: History = field(default_factory=History)
    sticky_model: str | None = None
    privacy: Privacy = "auto"
    granted: frozenset[str] = frozenset()
    prompts: tuple[str, ...] = ()
    """Memory and skills, as the model is told."""


class Staged(Struct, frozen=True):
    """A turn that can begin, and what it looks like to the pattern store."""

    turn: Turn
    fingerprint: bytes
    vector: bytes
    is_bare: bool = False
    """Whether tools were left out because nobody who may take it can use them."""


class Stage:
    """Gathers turns for the sessions of one house."""

    def __init__(self, house: House, kit: Kit, in_force: InForce) -> None:
        self._house = house
        self._kit = kit
        self._in_force = in_force

    def planned(self, seat: Seat, standing: Standing, said: Said) -> Staged:
        """Gather the turn of a user; raises where its `@alias` names no model."""
        models = self._in_force.ready.models

        def system(model: str) -> str:
            known = models.get(model)
            can = known is not None and known.can_delegate
            return planner_prompt(seat.workspace, *standing.prompts, can_delegate=can)

        tools = tuple(
            each
            for each in self._kit.tools.definitions()
            if seat.workspace is not None or not each.requires_workspace
        )
        return self.staged(seat, standing, said, tools, system)

    def staged(
        self,
        seat: Seat,
        standing: Standing,
        said: Said,
        tools: tuple[ToolDefinition, ...],
        system: Callable[[str], str],
    ) -> Staged:
        """Gather a turn."""
        mode: Mode = "off" if seat.is_worker else "strict"
        _, text = split_override(said.text, self._in_force.ready.aliases, mode)
        content = (Text(text), *said.more)
        request = _request(standing.history, content, tools, system(""))
        facts = self._facts(seat, standing, said, request)
        facts = replace(facts, estimated_input_tokens=self._tokens(request))
        turn = self._turn(seat, standing, said, facts, request)
        is_bare = bool(tools) and not self._can_use_tools(turn)
        if is_bare:
            # A conversation without tools beats none, and a model chosen by hand beats tools.
            tools, request = (), replace(request, tools=())
            facts = replace(
                facts, has_tool_definitions=False, estimated_input_tokens=self._tokens(request)
            )
            turn = self._turn(seat, standing, said, facts, request)
        turn = replace(turn, content=content, tools=tools, system=system)
        look = FINGERPRINT_FORM.encode(look_of(facts, _touched(standing.history)))
        # A worker's turn is not learned from: nobody asks for its vector.
        vector = b"" if seat.is_worker else self._house.ground.gathering.vectors.of(text)
        return Staged(turn, look, vector, is_bare)

    def _turn(
        self, seat: Seat, standing: Standing, said: Said, facts: TurnFacts, request: Request
    ) -> Turn:
        ground, in_force = self._house.ground, self._in_force
        about = Placed(seat.turn_id, seat.placed_as, ground.clock.now())
        return Turn(
            session_id=seat.session_id,
            turn_id=seat.turn_id,
            content=(),
            history=standing.history,
            tools=(),
            system=str,
            policies=policies_of(in_force),
            asked=ground.asked(in_force, facts, about, lambda: everything(request)),
            facts=facts,
            fallback=self._house.fallback(),
            is_worker=seat.is_worker,
            parent_tool_use_id=said.parent_tool_use_id,
            output=said.output,
            granted=standing.granted,
            limits=TurnLimits(
                most_output_tokens=said.most_output_tokens, confirm_s=self._kit.confirm_s
            ),
            claim=self._house.health.claim,
        )

    def _facts(self, seat: Seat, standing: Standing, said: Said, request: Request) -> TurnFacts:
        house, ground = self._house, self._house.ground
        now = ground.clock.now()
        caps, owners = house.caps(self._in_force), house.owners(seat.owners)
        looked = _touched(standing.history)
        around = Around(
            input_tokens=estimated_tokens(request),
            sticky_model=None if seat.is_worker else standing.sticky_model,
            workspace_path=seat.workspace,
            has_images=any(isinstance(each, Image) for each in said.more),
            max_output_tokens=said.most_output_tokens,
            has_tool_calls_in_history=bool(looked.tool_names),
            has_tools=bool(request.tools),
            has_system_prompt=bool(request.system),
            requires_structured_output=said.output is not None,
            cost_today_microusd=house.budgets.spent(owners, "all", "day", now),
            privacy_level=standing.privacy,
            availability=house.health.now(),
            allowed_models=house.patron.allowed_models,
            budgets=house.budgets.left(owners, caps, now) if caps else (),
            is_worker=seat.is_worker,
            delegate_tier=said.tier,
            skills_matching_message=self._kit.skills.matching(said.text, looked.file_extensions),
            touched=looked,
            turn_id=seat.turn_id,
        )
        mode: Mode = "off" if seat.is_worker else "strict"
        return ground.gathering.facts_of_call(self._in_force, said.text, around, now, mode)

    def _can_use_tools(self, turn: Turn) -> bool:
        """Tell whether the model chosen by hand can call tools, else whether any that may serve."""
        models, configured = self._in_force.ready.models, turn.facts.configured
        override, sticky = turn.facts.override, turn.facts.sticky_model
        chosen = models.get(sticky or "" if override is None else override.model)
        if chosen is not None:
            return chosen.capabilities.supports_tools
        must_stay = placed(turn.policies, turn.asked).outcome.gate == "local"
        return any(
            models[name].capabilities.supports_tools
            for name in (models if configured is None else configured)
            if name in models and (models[name].location == "local" or not must_stay)
        )

    def _tokens(self, request: Request) -> dict[str, int]:
        """Estimate for every model by its own vocabulary, where that is known."""
        found, by_name = {ANY_MODEL: estimated_tokens(request)}, {}
        for model in self._in_force.ready.models:
            name, is_own = tokenizer_of(model)
            if is_own:
                if name not in by_name:
                    by_name[name] = estimated_tokens(request, name)
                found[model] = by_name[name]
        return found


def _request(
    history: History,
    content: tuple[Text | Image, ...],
    tools: Sequence[ToolDefinition],
    system: str,
) -> Request:
    """Give what the first call would send, to count and to look at."""
    past = history.told(Manner())
    return Request(
        messages=(*past.open, Message("user", content)),
        earlier=past,
        system=(Text(system),) if system else (),
        tools=tuple(Tool(each.name, each.description, each.input_schema) for each in tools),
    )


def _touched(history: History) -> Surroundings:
    found = history.touched
    return Surroundings(
        file_extensions=found.extensions,
        file_paths=found.paths,
        tool_names=found.tool_names,
        has_tool_calls_in_history=found.has_tool_calls,
    )
