"""A LiteLLM configuration file as files of a home, with a report of what became of each setting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import yaml
from msgspec import Struct

from pointsman.errors import DocumentError, InputError
from pointsman.kernel.codes import Code
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.operations.litellm.deployments import (
    Deployment,
    ImportNote,
    NoteKind,
    Plain,
    read_deployment,
)
from pointsman.turns.registry.models import EMBEDDED_MODEL

MOST_VALUES: Final = 100_000
_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,126}", re.ASCII)
_REFERENCES: Final = {Code.ANCHOR, Code.ALIAS, Code.MERGE_KEY}

_DAYS: Final = {"1d": "day", "24h": "day", "30d": "month", "1mo": "month", "31d": "month"}
_SAID: Final = {
    "litellm_settings.num_retries": "calls are repeated three times with growing waits",
    "litellm_settings.drop_params": "what a format cannot carry is always left out, and listed",
    "litellm_settings.request_timeout": "taken as `limits.total_s`",
    "litellm_settings.json_logs": "log lines are JSON",
    "litellm_settings.turn_off_message_logging": "`retain: digest` keeps no text at all",
    "router_settings.num_retries": "calls are repeated three times with growing waits",
    "router_settings.allowed_fails": "a model is out after five failures within two minutes",
    "router_settings.routing_strategy": "rules and the order of the default choose, not load",
    "router_settings.timeout": "`timeout_s` of a provider and `limits:` bound a call",
    "router_settings.enable_pre_call_checks": "windows and abilities are always checked",
    "general_settings.master_key": "set POINTSMAN_ADMIN_TOKEN; callers get keys: `pointsman keys`",
    "general_settings.database_url": "`--store postgresql://…`, once `pointsman store migrate` ran",
    "general_settings.database_connection_pool_limit": "the pool has a size of its own",
}
_SECTIONS: Final = ("litellm_settings", "router_settings", "general_settings")
_READ: Final = {
    "fallbacks", "default_fallbacks", "context_window_fallbacks", "content_policy_fallbacks",
    "model_group_alias", "cooldown_time", "max_budget", "budget_duration", "request_timeout",
}  # fmt: skip


class ImportedHome(Struct, frozen=True):
    """The files made of a configuration, by name, and what became of each setting."""

    files: dict[str, bytes]
    notes: tuple[ImportNote, ...]
    variables: tuple[str, ...]
    """The environment variables that the files name."""


def import_config(text: bytes, source: str, environment: Mapping[str, str]) -> ImportedHome:
    """Turn a LiteLLM configuration into `models.yaml`, `routing.yaml` and `pointsman.yaml`."""
    return _Import(_tree(text, source), source, environment).convert()


def _tree(text: bytes, source: str) -> dict[str, Any]:
    """Read the file, anchors and merges followed: they are usual in these files."""
    document = parse_yaml(text, source)
    others = [each for each in document.problems if each.code not in _REFERENCES]
    if others:
        raise DocumentError(tuple(others))
    value: Any = document.value
    if document.problems:
        value = _write_out(yaml.safe_load(text), [MOST_VALUES])
    if not isinstance(value, dict) or not isinstance(value.get("model_list", []), list):
        raise InputError("is no LiteLLM configuration: it has no `model_list`", where=source)
    return value


def _write_out(value: Any, left: list[int]) -> Any:
    """Return a tree with every reference written out; refused where that is too much."""
    left[0] -= 1
    if left[0] < 0:
        raise InputError("its anchors stand for too much", hint="write the values out")
    if isinstance(value, dict):
        return {str(key): _write_out(each, left) for key, each in value.items()}
    if isinstance(value, list):
        return [_write_out(each, left) for each in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


class _Import:
    """One conversion: providers and models as they are found, and the notes on the way."""

    def __init__(self, given: Plain, source: str, environment: Mapping[str, str]) -> None:
        self._given = given
        self._source = source
        self._environment = environment
        self._notes: list[ImportNote] = []
        self._providers: dict[str, dict[str, Any]] = {}
        self._models: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, list[str]] = {}
        self._accept: dict[str, str] = {}

    def convert(self) -> ImportedHome:
        """Read every section, and return the files and the notes."""
        for index, entry in enumerate(self._given.get("model_list") or []):
            self._take_entry(index, entry if isinstance(entry, dict) else {})
        self._take_names()
        fallbacks = list(self._fallbacks())
        settings = self._settings()
        if fallbacks:
            settings["fallback"] = {"for_named_models": True}
        files = {
            "models.yaml": {
                "schema_version": 1,
                "providers": self._providers,
                "models": self._models,
                **({"accept": self._accept} if self._accept else {}),
            },
            "routing.yaml": self._routing(fallbacks),
            **({"pointsman.yaml": settings} if settings else {}),
        }
        self._note_sections()
        keys = (each.get("api_key") for each in self._providers.values())
        named = {key["env"] for listed in keys for key in _as_list(listed)}
        return ImportedHome(
            {name: self._text(value) for name, value in files.items()},
            tuple(self._notes),
            tuple(sorted(named)),
        )

    def _text(self, value: Plain) -> bytes:
        head = f"# Imported from {self._source.rpartition('/')[2]}. Yours to edit.\n"
        body: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
        return (head + body).encode()

    def _note(self, kind: NoteKind, where: str, text: str) -> None:
        self._notes.append(ImportNote(kind, where, text))

    def _take_entry(self, index: int, entry: Plain) -> None:
        at = f"model_list[{index}]"

        def note(kind: NoteKind, key: str, text: str) -> None:
            self._note(kind, f"{at}.{key}" if key else at, text)

        found = read_deployment(entry, note, self._environment)
        if found is None:
            return
        name = f"{self._provider_name(found)}:{found.name}"
        self._models.setdefault(name, found.model)
        group = self._groups.setdefault(found.group, [])
        if name not in group:
            group.append(name)
        self._note("taken", at, f"`{found.group}` is {name}")

    def _provider_name(self, found: Deployment) -> str:
        """Return the provider of these settings, a new one where there is none yet."""
        base = re.sub(r"[^a-z0-9_.-]+", "-", found.vendor.lower()).strip("-") or "provider"
        number = 1
        while True:
            name = base if number == 1 else f"{base}-{number}"
            known = self._providers.setdefault(name, found.provider)
            if known == found.provider:
                return name
            number += 1

    def _take_names(self) -> None:
        """Let callers go on with the names they use: as aliases, else under `accept:`."""
        for group, names in self._groups.items():
            self._name(group, names[0])
            if len(names) > 1:
                text = (
                    f"`{group}` has {len(names)} deployments: {names[0]} takes the name, the others"
                    " follow it in the default; no load is spread over different models"
                )
                self._note("differs", f"model_name `{group}`", text)
        aliases = self._section("router_settings").get("model_group_alias") or {}
        for alias, target in aliases.items():
            group = str(target.get("model") if isinstance(target, dict) else target)
            if group in self._groups:
                self._name(str(alias), self._groups[group][0])
                self._note("taken", f"model_group_alias.{alias}", f"stands for `{group}`")
            else:
                self._note("missing", f"model_group_alias.{alias}", f"`{group}` was not taken")

    def _name(self, name: str, model: str) -> None:
        if name.replace("/", ":", 1) in self._models:
            return
        aliases = self._models[model].setdefault("aliases", [])
        taken = any(name in each.get("aliases", []) for each in self._models.values())
        if _ALIAS.fullmatch(name) and not taken:
            aliases.append(name)
        elif not taken:
            self._accept[name] = model
        if not aliases:
            del self._models[model]["aliases"]

    def _section(self, name: str) -> Plain:
        found = self._given.get(name)
        return found if isinstance(found, dict) else {}

    def _fallbacks(self) -> Iterator[str]:
        """Return the groups that stand behind others, in their order."""
        is_told = False
        for section in ("litellm_settings", "router_settings"):
            for key in ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks"):
                for pair in _as_list(self._section(section).get(key)):
                    for group, others in pair.items() if isinstance(pair, dict) else ():
                        yield from (str(each) for each in (group, *_as_list(others)))
                        is_told = True
            others = _as_list(self._section(section).get("default_fallbacks"))
            yield from map(str, others)
            is_told = is_told or bool(others)
        if is_told:
            text = (
                "one order for all stands in `global_default`; a named model that fails is followed"
                " by it (`fallback: {for_named_models: true}`), and the answer says so"
            )
            self._note("differs", "fallbacks", text)

    def _routing(self, fallbacks: Sequence[str]) -> dict[str, Any]:
        groups = [*dict.fromkeys([*fallbacks, *self._groups])]
        for group in fallbacks:
            if group not in self._groups:
                self._note("missing", "fallbacks", f"`{group}` was not taken")
        names = [name for group in groups for name in self._groups.get(group, ())]
        answering = [name for name in names if "embed" not in name]
        default = [*dict.fromkeys([*answering, EMBEDDED_MODEL])]
        budgets = self._budgets()
        routing: dict[str, Any] = {"schema_version": 1, "global_default": default}
        return {**routing, "budgets": budgets} if budgets else routing

    def _budgets(self) -> list[dict[str, Any]]:
        given = self._section("litellm_settings")
        if given.get("max_budget") is None:
            return []
        duration = str(given.get("budget_duration") or "30d")
        per = _DAYS.get(duration)
        if per is None:
            text = f"`{duration}` is neither a day nor a month: taken as a month"
            self._note("differs", "litellm_settings.budget_duration", text)
        else:
            text = f"a budget of each {per} (UTC), checked before a call, with money set aside"
            self._note("taken", "litellm_settings.max_budget", text)
        limit = f"{Decimal(str(given['max_budget'])):f}"
        return [{"name": "all", "limit_usd": limit, "per": per or "month"}]

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        timeout = self._section("litellm_settings").get("request_timeout")
        if isinstance(timeout, int | Decimal) and timeout >= 1:
            settings["limits"] = {"total_s": min(int(timeout), 86_400)}
        cooldown = self._section("router_settings").get("cooldown_time")
        if isinstance(cooldown, int | Decimal):
            seconds = min(max(int(cooldown), 1), 300)
            settings["availability"] = {"probe_after_s": seconds}
            text = f"what is out is tried again by one turn at a time after {seconds} s"
            self._note("differs", "router_settings.cooldown_time", text)
        return settings

    def _note_sections(self) -> None:
        for section in _SECTIONS:
            for key in self._section(section).keys() - _READ:
                where = f"{section}.{key}"
                said = _SAID.get(where)
                kind: NoteKind = "missing" if said is None else "differs"
                self._note(kind, where, said or "has no counterpart")
        for key in self._given.keys() - {"model_list", *_SECTIONS}:
            text = "has no counterpart"
            if key == "environment_variables":
                text = "values are never written to a file: set them in the environment"
            self._note("missing", key, text)
        self._notes.sort(key=lambda each: (_ORDER.index(each.kind), each.where))


_ORDER: Final[tuple[NoteKind, ...]] = ("taken", "differs", "missing")


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
