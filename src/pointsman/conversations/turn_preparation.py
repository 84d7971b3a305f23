"""Preparation of a conversation's turn: its inputs are gathered once, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from pointsman.calls.flow import may_call
from pointsman.conversations.masked_calls import masked_request
from pointsman.conversations.services import ConversationServices, Kit
from pointsman.conversations.turn_driver import TurnScope
from pointsman.providers.messages import (
    ChatMessage,
    Image,
    ModelRequest,
    OutputFormat,
    Text,
    ToolSpec,
)
from pointsman.recording.gathering import CallSurroundings, turn_fingerprint
from pointsman.recording.placing import PlacedTurn as Placed
from pointsman.recording.ruling import decide_placement, policies_in_force
from pointsman.sessions.history import History, TranscriptStyle
from pointsman.sessions.prompts import planner_prompt
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.transcript import estimated_tokens, request_text, request_tools
from pointsman.sessions.turn import TurnLimits, TurnPlan
from pointsman.signals.tokens import tokenizer_of
from pointsman.storage.policies.policies import InForce
from pointsman.turns.chain.override import Mode, split_override
from pointsman.turns.facts import ANY_MODEL, Privacy, TurnFacts
from pointsman.turns.learning.fingerprint import FINGERPRINT_FORM, Surroundings
from pointsman.turns.registry.models import Tier


class TurnInput(Struct, frozen=True):
    """The input of a turn: a user's message, or a worker's task with its context."""

    text: str
    more: tuple[Text | Image, ...] = ()
    tier: Tier | None = None
    output: OutputFormat | None = None
    parent_tool_use_id: str | None = None
    most_output_tokens: int | None = None


class SessionState(Struct, frozen=True):
    """The state of a session when a turn begins."""

    history: History = field(default_factory=History)
    sticky_model: str | None = None
    privacy: Privacy = "auto"
    granted: frozenset[str] = frozenset()
    prompts: tuple[str, ...] = ()
    """Memory and skills, as prompts for the model."""


class PreparedTurn(Struct, frozen=True):
    """A turn that can begin, with its fingerprint and vector for the pattern store."""

    turn: TurnPlan
    fingerprint: bytes
    vector: bytes
    is_without_tools: bool = False
    """Whether tools were left out because no model that may take the turn can use them."""


class TurnPreparer:
    """Prepares turns for the sessions of a home."""

    def __init__(self, services: ConversationServices, kit: Kit, in_force: InForce) -> None:
        self._services = services
        self._kit = kit
        self._in_force = in_force

    def prepare_user_turn(
        self, scope: TurnScope, state: SessionState, turn_input: TurnInput
    ) -> PreparedTurn:
        """Prepare a user's turn; raises where its `@alias` names no model."""
        models = self._in_force.ready.models

        def system(model: str) -> str:
            known = models.get(model)
            can = known is not None and known.can_delegate
            return planner_prompt(scope.workspace, *state.prompts, can_delegate=can)

        tools = tuple(
            each
            for each in self._kit.tools.definitions()
            if scope.workspace is not None or not each.requires_workspace
        )
        return self.prepare(scope, state, turn_input, tools, system)

    def prepare(
        self,
        scope: TurnScope,
        state: SessionState,
        turn_input: TurnInput,
        tools: tuple[ToolDefinition, ...],
        system: Callable[[str], str],
    ) -> PreparedTurn:
        """Prepare a turn."""
        mode: Mode = "off" if scope.is_worker else "strict"
        _, text = split_override(turn_input.text, self._in_force.ready.aliases, mode)
        content = (Text(text), *turn_input.more)
        request = _request(state.history, content, tools, system(""))
        facts = self._facts(scope, state, turn_input, request)
        facts = replace(facts, estimated_input_tokens=self._tokens(request))
        turn = self._turn(scope, state, turn_input, facts, request)
        is_without_tools = bool(tools) and not self._can_use_tools(turn)
        if is_without_tools:
            # A conversation without tools beats none, and a model chosen by hand beats tools.
            tools, request = (), replace(request, tools=())
            facts = replace(
                facts,
                has_tool_definitions=False,
                estimated_input_tokens=self._tokens(request),
                tool_names=UNSET if facts.tool_names is UNSET else (),
            )
            turn = self._turn(scope, state, turn_input, facts, request)
        turn = replace(turn, content=content, tools=tools, system=system)
        look = FINGERPRINT_FORM.encode(turn_fingerprint(facts, _surroundings(state.history)))
        # Workers' turns are not learned from, so they need no vector.
        vector = b"" if scope.is_worker else self._services.opened.gathering.vector_of(text)
        return PreparedTurn(turn, look, vector, is_without_tools)

    def _turn(
        self,
        scope: TurnScope,
        state: SessionState,
        turn_input: TurnInput,
        facts: TurnFacts,
        request: ModelRequest,
    ) -> TurnPlan:
        opened, in_force = self._services.opened, self._in_force
        about = Placed(
            scope.turn_id,
            scope.placement_session_id,
            opened.clock.now(),
            tools=lambda: request_tools(request),
            handed_labels=scope.handed_labels,
        )
        return TurnPlan(
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            content=(),
            history=state.history,
            tools=(),
            system=str,
            policies=policies_in_force(in_force),
            asked=opened.gather_placement(
                in_force,
                facts,
                about,
                lambda: request_text(request),
                masked_request(opened, in_force, about.session_id, request),
            ),
            facts=facts,
            fallback=self._services.fallback(),
            is_worker=scope.is_worker,
            parent_tool_use_id=turn_input.parent_tool_use_id,
            output=turn_input.output,
            granted=state.granted,
            limits=TurnLimits(
                most_output_tokens=turn_input.most_output_tokens, confirm_s=self._kit.confirm_s
            ),
            claim=self._services.health.claim,
        )

    def _facts(
        self, scope: TurnScope, state: SessionState, turn_input: TurnInput, request: ModelRequest
    ) -> TurnFacts:
        services, opened = self._services, self._services.opened
        now = opened.clock.now()
        caps, owners = services.caps(self._in_force), services.owners(scope.owners)
        looked = _surroundings(state.history)
        around = CallSurroundings(
            input_tokens=estimated_tokens(request),
            sticky_model=None if scope.is_worker else state.sticky_model,
            workspace_path=scope.workspace,
            has_images=any(isinstance(each, Image) for each in turn_input.more),
            max_output_tokens=turn_input.most_output_tokens,
            has_tool_calls_in_history=bool(looked.tool_names),
            has_tools=bool(request.tools),
            has_system_prompt=bool(request.system),
            requires_structured_output=turn_input.output is not None,
            cost_today_microusd=services.budgets.amount_spent(owners, "all", "day", now),
            privacy_level=state.privacy,
            availability=services.health.now(),
            allowed_models=services.key_limits.allowed_models,
            budgets=services.budgets.remaining(owners, caps, now) if caps else (),
            is_worker=scope.is_worker,
            delegate_tier=turn_input.tier,
            skills_matching_message=self._kit.skills.matching(
                turn_input.text, looked.file_extensions
            ),
            touched=looked,
            turn_id=scope.turn_id,
            caller=services.key_limits.caller_facts,
            session_id=scope.session_id,
            tool_names=lambda: tuple(each.name for each in request.tools),
        )
        mode: Mode = "off" if scope.is_worker else "strict"
        return opened.gathering.facts_of_call(self._in_force, turn_input.text, around, now, mode)

    def _can_use_tools(self, turn: TurnPlan) -> bool:
        """Return whether the model chosen by hand, else any that may serve, can call tools."""
        models, configured = self._in_force.ready.models, turn.facts.configured
        override, sticky = turn.facts.override, turn.facts.sticky_model
        chosen = models.get(sticky or "" if override is None else override.model)
        if chosen is not None:
            return chosen.capabilities.supports_tools is not False
        placing = decide_placement(turn.policies, turn.asked)
        return any(
            models[name].capabilities.supports_tools is not False
            for name in (models if configured is None else configured)
            if name in models
            and (placing.outcome.gate == "closed" or may_call(turn.policies, placing, name))
        )

    def _tokens(self, request: ModelRequest) -> dict[str, int]:
        """Estimate the tokens for every model by its own tokenizer, where that is known."""
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
) -> ModelRequest:
    """Return the first call's request, to count its tokens and gather facts from."""
    past = history.transcript_for(TranscriptStyle())
    return ModelRequest(
        messages=(*past.open, ChatMessage("user", content)),
        earlier=past,
        system=(Text(system),) if system else (),
        tools=tuple(ToolSpec(each.name, each.description, each.input_schema) for each in tools),
    )


def _surroundings(history: History) -> Surroundings:
    found = history.touched_files
    return Surroundings(
        file_extensions=found.extensions,
        file_paths=found.paths,
        tool_names=found.tool_names,
        has_tool_calls_in_history=found.has_tool_calls,
    )
