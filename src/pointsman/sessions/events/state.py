"""Skills and memory: the state that outlives a session."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words


class SkillLoaded(SessionEvent, frozen=True):
    """A skill's text was put before the model."""

    type: ClassVar[str] = "skill.loaded"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    skill_id: str
    skill_version: str
    load_reason: Literal["always", "on_demand", "auto_suggested"]
    load_size_tokens: int
    source: str
    triggered_by_tool_use_id: str | None


class SkillCreated(SessionEvent, frozen=True):
    """A skill was written."""

    type: ClassVar[str] = "skill.created"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"

    skill_id: str
    skill_version: str
    source: str
    size_tokens: int


class SkillModified(SessionEvent, frozen=True):
    """A skill was changed."""

    type: ClassVar[str] = "skill.modified"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"
    words: ClassVar[tuple[str, ...]] = ("reason",)

    skill_id: str
    hash_before: str
    hash_after: str
    modification_type: Literal["edit", "delete"]
    reason: Words


class SkillSearch(SessionEvent, frozen=True):
    """Skills were looked for."""

    type: ClassVar[str] = "skill.search"
    actor: ClassVar[Actor] = "agent"
    words: ClassVar[tuple[str, ...]] = ("query",)

    query: Words
    results_count: int
    result_skill_ids: tuple[str, ...]


class MemoryUpdated(SessionEvent, frozen=True):
    """A memory file was changed."""

    type: ClassVar[str] = "memory.updated"
    actor: ClassVar[Actor] = "agent"

    file: str
    operation: Literal["add", "replace", "consolidate"]
    hash_before: str
    hash_after: str
    size_before: int
    size_after: int


class MemoryEviction(SessionEvent, frozen=True):
    """Old memory entries were removed to make room."""

    type: ClassVar[str] = "memory.eviction"

    file: str
    trigger: str
    entries_evicted: int
    size_before: int
    size_after: int
