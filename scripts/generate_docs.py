"""Write the reference pages that come from the code: errors, commands, JSON Schemas.

With --check nothing is written; the run ends with 1 and names the pages that are stale. A code
without a description here or in the code is an error: no page is written then.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import yaml

from pointsman import errors
from pointsman.agents.codes import Cause, DepthReason, Excluded, ReasonTag
from pointsman.agents.facts import GivenJob
from pointsman.agents.file.agents_file import AgentsFile, GivenSelfRep
from pointsman.agents.file.config import DEFAULT_CONFIG, GivenConfig, default_text
from pointsman.branches.file.decisions_file import DecisionsFile
from pointsman.branches.rules.review import BranchConcern
from pointsman.branches.trace import Reason
from pointsman.cli.main import main as command
from pointsman.expressions import values
from pointsman.expressions.functions import FUNCTIONS, OPERATORS
from pointsman.expressions.syntax import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES
from pointsman.gateway.telemetry.logs import LOG_LINES
from pointsman.jobs.request import JobRequest
from pointsman.kernel.codes import Code
from pointsman.kernel.replay import Verdict
from pointsman.kernel.schema import Schema, json_schema
from pointsman.kernel.verification import FaultCode
from pointsman.placement.facts import GivenPlacement
from pointsman.placement.rules.table import ErrorCode, placement_schema
from pointsman.sessions.catalogue import catalogue_page
from pointsman.storage.policies.sensor_file import SensorsFile
from pointsman.storage.policies.settings import Settings
from pointsman.storage.policies.workflow_file import WorkflowFile
from pointsman.turns.facts import GivenFacts
from pointsman.turns.policy import RoutingFile
from pointsman.turns.registry.models import ModelsFile
from pointsman.turns.registry.services import SERVICES
from pointsman.turns.trace import ValidationFailure

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = "docs/reference"
WIDTH = 80

GENERATED = (
    "<!-- Written by scripts/generate_docs.py from the code: do not edit, run `make docs`. -->"
)


def log_line_schema() -> Schema:
    """Return the schema of a line of the log: one of the kinds there are."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a line of the log",
        "oneOf": [_line_schema(json_schema(each)) for each in LOG_LINES],
    }


def _line_schema(schema: Schema) -> Schema:
    (line,) = schema["$defs"].values()
    line["properties"]["time"]["format"] = "date-time"
    return line


SCHEMAS: Mapping[str, tuple[Callable[[], Schema], str]] = {
    "pointsman": (partial(json_schema, Settings), "`pointsman.yaml`, how a home is run"),
    "models": (
        partial(json_schema, ModelsFile),
        "`models.yaml`, the models there are and who serves them",
    ),
    "routing": (partial(json_schema, RoutingFile), "`routing.yaml`, which model takes a turn"),
    "turn-facts": (
        partial(json_schema, GivenFacts),
        "the facts of a turn, as `pointsman route --facts` reads them",
    ),
    "decisions": (
        partial(json_schema, DecisionsFile),
        "the files in `decisions/`, which branch a workflow takes",
    ),
    "workflow": (partial(json_schema, WorkflowFile), "the files in `workflows/`"),
    "sensors": (partial(json_schema, SensorsFile), "the files in `sensors/`"),
    "placement.schema": (
        placement_schema,
        "`placement.yaml`, whether a turn may leave this machine ([the table](../placement.md))",
    ),
    "agents": (
        partial(json_schema, AgentsFile),
        "`agents.yaml`, the modules and what rules the choice ([the rules](../agents.md))",
    ),
    "selfrep": (
        partial(json_schema, GivenSelfRep),
        "a snapshot of modules, as `POST /selfrep/create_snapshot` takes it",
    ),
    "job": (
        partial(json_schema, GivenJob),
        "a request for an agent, as `POST /router/decide` takes it",
    ),
    "job-request": (
        partial(json_schema, JobRequest),
        "a job, as `jobs run --request` and `agents decide --request` take it",
    ),
    "log-line": (
        log_line_schema,
        "a line of the log on standard error ([what it tells](../http.md#telemetry))",
    ),
    "placement-facts": (
        partial(json_schema, GivenPlacement),
        "the facts of a placement, as `pointsman place --facts` reads them",
    ),
}

FAULTS = {
    "ENTRY_MISSING": "an entry is gone, and later ones are still there",
    "ENTRY_CHANGED": "an entry's content does not give the hash stored with it",
    "ENTRY_UNLINKED": "an entry does not follow the one before it, or belongs to no chain",
    "TRUNCATED": "entries that a checkpoint covers are gone from the end of the chain",
    "REWRITTEN": "entries fit together, but are not the ones a checkpoint signed",
    "UNSIGNED": "more entries than the 256 allowed stand past the last checkpoint",
    "END_CHANGED": "the chain does not end where its writer signed that it does",
    "CHECKPOINT_MISSING": "checkpoints are gone of which the stamp says that they were signed",
    "KEY_FOREIGN": "`keys/signing` is the key of another home",
    "LEAVES_CHANGED": "the `leaves` file was changed; the entries themselves are as signed",
    "CHECKPOINT_BROKEN": "a checkpoint is cut, changed, out of order or not signed by this ledger",
    "VALUE_CHANGED": "an attachment is not the one its entry names, or no entry names it",
    "VALUE_MISSING": "an attachment that an entry names is gone",
    "SNAPSHOT_FORGED": "a snapshot is not signed by a key of this ledger",
    "WITNESS_DIFFERS": "a witness cosigned another history of the chain than the one here",
    "WITNESS_AHEAD": "a witness cosigned more entries of the chain than there are here",
    "DATABASE_DAMAGED": "SQLite cannot read the database, or it belongs to another ledger",
}
VERDICTS = {
    "IDENTICAL": "the decision came out the same, byte for byte",
    "DIVERGED": "the decision came out differently; the differences are listed",
    "UNABLE": "the decision could not be re-run; one of the replay errors above says why",
}
REJECTIONS = {
    "privacy_blocked": "the turn must stay on this machine, and the model is in the cloud",
    "not_permitted": "the model is not among the `allowed_models`",
    "not_configured": "the model is not in the registry, or lacks a key or an address",
    "provider_unavailable": "the network, the provider, or this one model is unavailable",
    "no_vision_support": "the turn has images, and the model cannot see",
    "exceeds_context_window": "the turn has more tokens than the model takes",
    "no_tool_support": "the turn defines tools, and the model cannot call any",
    "no_system_prompt_support": "the turn has a system prompt, and the model takes none",
    "no_structured_output_support": "the turn needs structured output, which the model lacks",
    "over_budget": "a budget has too little left, or the model's price is unknown",
    "stopped": "an order stopped all calls, those of the tenant or those to the provider",
}
PLACEMENT_ERRORS = {
    "E-ROUTE-001": "a policy rule blocks the question, or no rule of the table holds for it",
    "E-ROUTE-002": "somebody wants the cloud for what must stay on this machine",
    "E-LOCAL-001": "the local model is not available, or it failed and nothing may take over",
    "E-CLOUD-001": "no cloud model is configured, or it failed; a cloud failure is not tried again",
    "E-NET-001": "the route is the cloud, and the network is offline",
    "E-VALID-001": "the facts do not fit their schema; the command ends with 2",
    "E-VALID-002": "a table of your own may give it to a failure that crossed a boundary",
}
BANNERS = {
    "turns.choice_rejected": "the model the user chose by hand could not take the turn",
    "turns.model_unavailable": "a model is unavailable, and routing fell through to another",
    "turns.provider_unavailable": "a provider is unavailable, and routing fell through to another",
    "turns.budget_breaker": "a rule about the day's spending took the turn",
    "turns.pattern_disagreement": "similar turns speak for another model than the rule that won",
    "turns.no_model": "no slot had a model that may take this turn",
    "turns.no_model_for_tier": "no tier that a delegation may use has a model for it",
}


class Undescribed(Exception):
    """A code that no page could explain."""


def pages() -> dict[str, str]:
    """Return every generated page by its path under the repository's root."""
    return {
        f"{REFERENCE}/errors.md": errors_page(),
        f"{REFERENCE}/agents.md": agents_page(),
        f"{REFERENCE}/events.md": events_page(),
        f"{REFERENCE}/cli.md": cli_page(),
        f"{REFERENCE}/expressions.md": expressions_page(),
        f"{REFERENCE}/outcomes.md": outcomes_page(),
        f"{REFERENCE}/conformance.md": conformance_page(),
        f"{REFERENCE}/providers.md": providers_page(),
        f"{REFERENCE}/schemas/README.md": schemas_page(),
        **{f"{REFERENCE}/schemas/{name}.json": schema_text(name) for name in SCHEMAS},
    }


def events_page() -> str:
    """Write the catalogue of a session's events."""
    title, _, rest = catalogue_page().partition("\n")
    return f"{title}\n\n{GENERATED}\n{rest.rstrip()}\n"


def errors_page() -> str:
    return _page(
        "# Errors and codes",
        GENERATED,
        "A code is stable: scripts may compare it. The words of a message may change. An error\n"
        "prints as `place: code: message`, and as `next: …` when there is something to do about\n"
        "it. With `--json` an error is a document with `error_code`, `message`, `where`, `hint`\n"
        "and `problems`.",
        "## Errors",
        "Each row is a class of `pointsman.errors`; a class further in is a kind of the class\n"
        "above it. Exit is what the command ends with, HTTP what a server answers with.",
        _table(("code", "class", "meaning", "exit", "HTTP"), _error_rows()),
        "## Problems in a document",
        "What can be wrong with a JSON or YAML text. Every problem of a text is listed in one\n"
        "run as `file:line:col: code: message`.",
        _table(("code", "meaning"), ((f"`{each}`", each.meaning) for each in Code)),
        "## Faults in a ledger",
        "What `pointsman verify` and `pointsman doctor` report, with the chain and the number of\n"
        "the first entry concerned.",
        _table(("code", "meaning"), _enum_rows(FaultCode, FAULTS)),
        "## How a replay ends",
        "The verdict on each decision that `pointsman replay` re-runs.",
        _table(("verdict", "meaning"), _enum_rows(Verdict, VERDICTS)),
        "## Why a candidate is rejected",
        "The `validation_failure` of a slot in a turn's chain. Checks run in this order and the\n"
        "first that fails is reported.",
        _table(("code", "meaning"), _describe_codes(get_args(ValidationFailure), REJECTIONS)),
        "## Why a question is placed nowhere",
        "The `error_code` of a placement, by `pointsman place` and in the trace of a turn. The\n"
        "codes are those of the [placement table](placement.md).",
        _table(("code", "meaning"), _describe_codes(get_args(ErrorCode), PLACEMENT_ERRORS)),
        "## Banners",
        "What a decision asks a surface to show to the user.",
        _table(("code", "meaning"), ((f"`{code}`", text) for code, text in BANNERS.items())),
    )


def agents_page() -> str:
    return _page(
        "# The choice of an agent",
        GENERATED,
        "Which agent takes a job, how deep it may go and how many tokens it gets. A choice rests\n"
        "on the job and three snapshots alone: the router's (constants, intents, roles), that of\n"
        "the modules, and that of the mind. All numbers are exact, in billionths.",
        "## The order of things",
        "1. **Privacy.** A query that holds what must not be routed ends in `PRIVACY_BLOCKED`.\n"
        "2. **Who is asked.** The candidates given; else those of the query's intent; else the\n"
        "   agents that name the intent among their capabilities; else all agents.\n"
        "3. **Who may be asked.** The checks below, in their order, before any score.\n"
        "4. **The best `top_n`** of them by trust, then by name.\n"
        "5. **The score**: `weight_avail * availability + weight_goal * goal_priority +\n"
        "   weight_bias * explore_bias * (1 - availability)`, rounded once, half to even. Equal\n"
        "   scores: more trust first, then the lower name.\n"
        "6. **The fallback**, if no agent reaches `min_score`: `is_fallback: true`, else\n"
        "   `generic_agent`. It must pass the same checks, and answers without going deep. It is\n"
        "   never a candidate like others, even where it is named.",
        "Availability is `apt * status weight`, times `dep_unhealthy_penalty` once if anything\n"
        "the module requires is not healthy. A dependency without an edge of its own is required.",
        "## Constants",
        "`router_config` in `agents.yaml`; upper-case names are taken as well. What is not given\n"
        "takes its default when the snapshot is made, and the snapshot says so.",
        _table(
            ("constant", "default"),
            (
                (f"`{name}`", f"`{default_text(name, getattr(DEFAULT_CONFIG, name))}`")
                for name in GivenConfig.__struct_fields__
            ),
        ),
        "## Why a module is not scored",
        _table(("code", "meaning"), _enum_rows(Excluded, {})),
        "## What a candidate stands on",
        "The `reason_tag` of a candidate; `reason` repeats it.",
        _table(("tag", "meaning"), _enum_rows(ReasonTag, {})),
        "## What set the depth",
        _table(("reason", "meaning"), _enum_rows(DepthReason, {})),
        "## Why nobody takes a job",
        "The `cause` beside `ROUTER_NO_MATCH` or `PRIVACY_BLOCKED`.",
        _table(("cause", "meaning"), (row for row in _enum_rows(Cause, {}) if row[0] != "``")),
    )


def _error_rows() -> Iterator[tuple[str, ...]]:
    for kind, depth in _error_tree(errors.PointsmanError, 0):
        name = "&nbsp;" * 2 * depth + f"`{kind.__name__}`"
        meaning = (kind.__dict__.get("__doc__") or "").partition("\n")[0]
        if not meaning:
            raise Undescribed(f"{kind.__name__} has no docstring")
        yield f"`{kind.code}`", name, meaning, str(kind.exit_code), str(kind.http_status)


def _error_tree(
    kind: type[errors.PointsmanError], depth: int
) -> Iterator[tuple[type[errors.PointsmanError], int]]:
    yield kind, depth
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _error_tree(each, depth + 1)


def _enum_rows(codes: type[StrEnum], described: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in codes:
        meaning = getattr(each, "meaning", "") or described.get(each.name, "")
        if not meaning:
            raise Undescribed(f"{codes.__name__}.{each.name} has no description")
        yield f"`{each.value}`", meaning


def _describe_codes(
    codes: Iterable[str], described: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for each in codes:
        if each not in described:
            raise Undescribed(f"`{each}` has no description")
        yield f"`{each}`", described[each]


def cli_page() -> str:
    texts = [(path, help_) for path, help_ in _helps(command, None, "pointsman")]
    return _page(
        "# Command line",
        GENERATED,
        "Every command takes `--home DIR` and `--json`. The home folder is the one given, else\n"
        "`POINTSMAN_HOME`, else `~/.pointsman`. Exit codes: 0 = done; 1 = decided against, or\n"
        "something is broken (no model may take the turn, a replay differs, a ledger is not\n"
        "intact, `doctor` found a fault); 2 = bad input or configuration. Warnings never change\n"
        "the code.",
        *(part for path, help_ in texts for part in (f"## {path}", f"```text\n{help_}\n```")),
    )


def _helps(
    each: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[str, str]]:
    settings = {"terminal_width": WIDTH, **each.context_settings}
    with click.Context(each, parent, info_name=name, **settings) as context:
        yield context.command_path, each.get_help(context)
        if isinstance(each, click.Group):
            for sub in each.list_commands(context):
                found = each.get_command(context, sub)
                if found is not None:
                    yield from _helps(found, context, sub)


def expressions_page() -> str:
    return _page(
        "# Expressions",
        GENERATED,
        "Conditions and inputs of [decisions](../guide/branches.md) are written in one small\n"
        "language. It has no loops, no lambdas, no clock and no way out of its values. The same\n"
        "expression on the same context gives the same answer on every machine and Python.",
        "`{{ e }}` and `${ e }` mean the same as `e`, if they wrap the whole text. They give the\n"
        "value itself, not a text of it. In a condition `input` is the decision's input; every\n"
        "other name is a member of the context. `context` is all of it, unless it has a member\n"
        "of that name.",
        "## Values",
        "Null, truth values, numbers, texts, lists and mappings, as in JSON. Nothing is ever\n"
        "converted: `'3' == 3` is refused when it is read, and false where a context brings it\n"
        "about. A number is an exact decimal. What is read is kept digit by digit; a sum,\n"
        f"product or quotient is rounded half to even at {values.PRECISION} digits, and unknown\n"
        f"beyond 10^{values.MAX_POWER}. 1 and 1.0 are one number; true is no number.",
        "## What is not known",
        "A value that is missing, a comparison of a text with a number, a division by zero: all\n"
        "are unknown. `and`, `or` and `not` follow three-valued logic, and **only true takes a\n"
        "branch**. The record names every path that was missing. Null is a value:\n"
        "`null == 'x'` is false, and `path == null` is true where the path is null or missing.",
        "## Operators",
        "From loose to tight.",
        _table(
            ("write", "meaning", "example", "gives", "unknown where"),
            (
                (_code(each.usage), each.meaning, *map(_code, each.example), each.unknown)
                for each in OPERATORS
            ),
        ),
        "## Functions",
        *(
            part
            for group in dict.fromkeys(each.group for each in FUNCTIONS.values())
            for part in (f"### Of {group}s" if group != "choice" else "### Of choice",
                         _functions(group))
        ),
        "Letters change case and blanks are trimmed in ASCII only, because the rest of Unicode\n"
        "changes with the Python version. Dates are RFC 3339 texts, or `YYYY-MM-DD` for midnight\n"
        "in UTC; what functions give has one form, so that texts sort as time does.",
        "## Limits",
        f"An expression has at most {MAX_CHARACTERS:,} characters, {MAX_NODES:,} parts and\n"
        f"{MAX_DEPTH} levels. One evaluation takes at most {values.STEPS:,} steps: a step is one\n"
        f"member of a list, or {values.CHARACTERS_A_STEP} characters of a text, that is looked\n"
        "at or made. Beyond them the answer is unknown. Patterns are RE2 and must\n"
        "be literals. A name cannot start with two underscores.",
        "## Next to zen-engine",
        "On numbers, comparisons, logic, lists of literals and the functions both have, our\n"
        "tests find the same answers. They differ in this:",
        _table(
            ("expression", "here", "zen-engine", "why"),
            (tuple(row) for row in ZEN_DIFFERENCES),
        ),
        "## Why a decision went where it went",
        "The `reason` of a decision.",
        _table(("code", "meaning"), ((f"`{each}`", each.meaning) for each in Reason)),
        "## What a review finds",
        "Each finding has an input that shows it, where one can.",
        _table(("code", "meaning"), ((f"`{each}`", each.meaning) for each in BranchConcern)),
    )  # fmt: skip


ZEN_DIFFERENCES = (
    ("`gone == 'x'`", "unknown", "false", "a misspelt name must not decide"),
    ("`gone > 1`", "unknown", "error", "the record names what is missing"),
    ("`'a' < 'b'`", "true", "error", "texts have an order"),
    ("`list == list`", "true", "false", "lists are equal where their members are"),
    ("`round(2.5)`", "2", "3", "half to even, as everywhere in Pointsman"),
    ("`1 / 0`", "unknown", "null", "a result that is no number must not pass for one"),
    ("`f && g`", "false", "error", "both spellings are read"),
    ("`not a == 3`", "`not (a == 3)`", "`(not a) == 3`", "`not` as in Python, `!` as in C"),
    ("`upper('ä')`", "`'ä'`", "`'Ä'`", "letters outside ASCII change with the Unicode version"),
)


def _functions(group: str) -> str:
    return _table(
        ("write", "meaning", "example", "gives"),
        (
            (_code(each.usage), each.meaning, *map(_code, each.example))
            for each in FUNCTIONS.values()
            if each.group == group
        ),
    )


def _code(text: str) -> str:
    return f"`{text}`"


OUTCOME_COLUMNS = (
    "what is wrong", "chosen by", "serves", "status", "code", "headers", "ledger", "charged",
)  # fmt: skip
CHOICES = {
    "named": "named in `model`",
    "pinned": "pinned to the session",
    "alias": "`@alias`",
    "rule": "rule",
    "pattern": "similar turns",
    "default": "default list",
}


def outcomes_page() -> str:
    return _page(
        "# Outcomes",
        GENERATED.replace("from the code", "from tests/cases/outcomes"),
        "What a caller gets when a model is chosen in one of six ways and something is wrong\n"
        "with it. Every row is run by the tests over `/v1/chat/completions`, `/v1/responses`\n"
        "and `/v1/messages`, whole and streamed, against a real gateway; apart from the\n"
        "vendor's error shape the six results are the same.",
        "In each row `main:first` is the model chosen: named in the request, pinned to the\n"
        "session, by `@alias` in the text, by a rule, by what similar turns speak for, or as\n"
        "the first of the default list. `spare:second` is the next of that list, and\n"
        "`house:local` runs on this machine. Fallback is on, and `for_named_models` is off\n"
        "unless a row says so, as by default.",
        "*Headers* are `x-pointsman-fallback-from` (fallback-from), `x-pointsman-notice`\n"
        "(notice), `x-should-retry` and `retry-after`; one that is not listed is not sent.\n"
        "*Ledger* lists the entries of the turn in their order; an outcome has its\n"
        "`error_class`. *Charged* is in micro-dollars: the provider tells 12 tokens in and 7\n"
        "out, at $1 a million for `main:first`, $2 for `spare:second`, nothing for\n"
        "`house:local`. The code stands in `error.code`; Anthropic's shape has no place for\n"
        "one, so `error.message` begins with it.",
        _table(
            OUTCOME_COLUMNS,
            _outcome_rows(),
        ),
        "A stream that breaks after its first byte of content has status 200 already: an\n"
        "error event ends it, no other model takes over, and what came is charged by\n"
        "estimate. A provider's own 400 is no reason to ask another model.",
        "A local model chosen by hand is never replaced by one in the cloud. Where several\n"
        "candidates are rejected, a named model's own cause is told; else one that waiting can\n"
        "mend (503), else the first in the order of the [vetoes](errors.md).",
    )  # fmt: skip


def _outcome_rows() -> Iterator[tuple[str, ...]]:
    for path in sorted((ROOT / "tests" / "cases" / "outcomes").glob("*.yaml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        only = {"stream": " (streamed)", "whole": " (whole)"}.get(case.get("only", ""), "")
        for row in case["cells"]:
            want = row["want"]
            ways = (
                "all six"
                if len(row["ways"]) == len(CHOICES)
                else ", ".join(CHOICES[way] for way in row["ways"])
            )
            yield (
                case["note"] + only,
                ways,
                "none" if want["serves"] == "none" else f"`{want['serves']}`",
                str(want["status"]),
                f"`{want['code']}`" if "code" in want else "",
                ", ".join(_outcome_headers(want)),
                "; ".join(want["entries"]) or "nothing",
                str(want["charged"]),
            )  # fmt: skip


def _outcome_headers(want: Mapping[str, object]) -> Iterator[str]:
    if "fallback_from" in want:
        yield f"fallback-from: `{want['fallback_from']}`"
    if "notice" in want:
        yield f"notice: `{want['notice']}`"
    if want.get("should_retry") is False:
        yield "`x-should-retry: false`"
    if want.get("retry_after"):
        yield "`retry-after`"


SURFACES = {
    "route --facts": "`pointsman route --facts`",
    "route": "`pointsman route MESSAGE`",
    "mcp facts": "`route_preview` with `facts`",
    "mcp": "`route_preview` with `message`",
    "chat": "`pointsman chat --message`",
    "/v1/chat/completions": "`/v1/chat/completions`",
    "/v1/responses": "`/v1/responses`",
    "/v1/messages": "`/v1/messages`",
}


def conformance_page() -> str:
    cases = [*_conformance_cases()]
    predicates = {case["covers"] for case in cases} - {*get_args(ValidationFailure)}
    return _page(
        "# Conformance",
        GENERATED.replace("from the code", "from tests/cases/conformance"),
        "The same facts give the same decision, whichever way a turn comes. Every row below is\n"
        "a policy and the turns sent under it; the tests send each turn through eight surfaces\n"
        "and compare the model chosen, the slot that won, what every slot said, its\n"
        "`validation_failure` and the rules that lost. Facts are not handed in where they can\n"
        "arise: a key has its models, a budget its calls, an outage its failures.",
        "The surfaces are the command line, the MCP server's tool `route_preview` and the three\n"
        "model endpoints:",
        "\n".join(f"- {each}" for each in SURFACES.values()),
        "The two that take facts decide on exactly those; the others gather. A surface that\n"
        "calls a model must also serve the one that was chosen.",
        "In each row the rule `asked` proposes `main:first`. *Not on* names the surfaces that\n"
        "cannot carry the fact; the tests send the turn there as well, and fail when the\n"
        "surface turns out to carry it. A rule that asks for such a fact never holds there.",
        "## Predicates of rules",
        _table(
            ("predicate", "holds when", "rule", "not on"),
            (
                (f"`{case['covers']}`", case["note"], _code(_flow(case["when"])), _left_out(case))
                for case in cases
                if case["covers"] in predicates
            ),
        ),
        "## Vetoes",
        _table(
            ("veto", "when", "reason", "then serves", "not on"),
            (
                (f"`{case['covers']}`", case["note"], *_veto_cells(case), _left_out(case))
                for case in cases
                if case["covers"] not in predicates
            ),
        ),
        "## Why not there",
        _table(("what", "surface", "why"), _reasons_left_out(cases)),
    )  # fmt: skip


def _conformance_cases() -> Iterator[dict[str, Any]]:
    for path in sorted((ROOT / "tests" / "cases" / "conformance").glob("*.yaml")):
        yield yaml.safe_load(path.read_text(encoding="utf-8"))


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return text.strip().replace("|", "\\|")


def _veto_cells(case: Mapping[str, Any]) -> tuple[str, str]:
    (want,) = [turn["want"] for turn in case["turns"] if "because" in turn["want"]]
    chosen = want["chosen"]
    reason = want["because"].replace("`", "").replace("*", "…")
    return reason, chosen if chosen == "none" else _code(chosen)


def _left_out(case: Mapping[str, Any]) -> str:
    return ", ".join(SURFACES[each] for each in case.get("cannot", ()))


def _reasons_left_out(cases: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for case in cases:
        by_reason: dict[str, list[str]] = {}
        for surface, reason in case.get("cannot", {}).items():
            by_reason.setdefault(reason, []).append(SURFACES[surface])
        for reason, surfaces in by_reason.items():
            yield f"`{case['covers']}`: {case['note']}", ", ".join(surfaces), reason


def schema_text(name: str) -> str:
    return json.dumps(SCHEMAS[name][0](), indent=2, ensure_ascii=False) + "\n"


def schemas_page() -> str:
    return _page(
        "# JSON Schemas",
        GENERATED,
        "JSON Schema 2020-12, generated from the types that read the files. An editor can check\n"
        "a file against its schema while it is written. Some rules cannot be said in a schema,\n"
        "such as that a named model exists; `pointsman doctor` checks those too.",
        _table(
            ("schema", "describes"),
            ((f"[{name}.json]({name}.json)", about) for name, (_, about) in SCHEMAS.items()),
        ),
    )


def providers_page() -> str:
    """Return the page about the services that `kind:` can name."""
    return _page(
        "# Providers",
        GENERATED,
        """
        Write the name of a service as `kind:` of a provider, and a key: the address, the wire
        format and what is peculiar to that service are known. `base_url` beats the address here.
        The price table and the catalogue know a model by the kind of its provider, so a provider
        may have any name.
        """,
        """
        ```yaml
        schema_version: 1
        providers:
          fast: {kind: groq, api_key: {env: GROQ_API_KEY}}
          here: {kind: vllm, base_url: "http://127.0.0.1:8000"}
        models:
          fast:openai/gpt-oss-120b: {location: cloud, tier: fast}
          here:qwen3-32b: {location: local, tier: balanced}
        ```
        """,
        """
        `pointsman init --with NAMES` writes such a file for the services that stand with their
        models. A field of a request that a service knows by another name is renamed on its way out;
        one that it refuses, and does not need, is left out. A service of the
        OpenAI formats speaks `chat` unless `speaks: [responses, chat]` says more.
        [Models in a cloud](../guide/clouds.md) tells how to log in where a key is not all.
        """,
        "## Services",
        _table(("kind", "service", "address", "key", "formats", "models of `init`"), _services()),
        "## What is their own",
        _table(("kind", "renamed", "left out", "else"), _peculiarities()),
    )


def _services() -> Iterable[tuple[str, ...]]:
    for each in SERVICES:
        keys = " or ".join(f"`{name}`" for name in each.secrets) or "none needed"
        models = ", ".join(f"`{model.name}`" for model in each.models)
        formats = ", ".join(each.speaks)
        address = f"`{each.base_url}`" if each.base_url else "your own"
        yield f"`{each.name}`", each.title, address, keys, formats, models


def _peculiarities() -> Iterable[tuple[str, ...]]:
    for each in SERVICES:
        renamed = ", ".join(f"`{old}` → `{new}`" for old, new in each.renames.items())
        left_out = ", ".join(f"`{name}`" for name in each.leaves_out)
        if renamed or left_out or each.note:
            yield f"`{each.name}`", renamed, left_out, each.note


def _page(*parts: str) -> str:
    return "\n\n".join(inspect.cleandoc(part) for part in parts) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
                     for row in lines)  # fmt: skip


def stale(root: Path) -> list[str]:
    """Name the pages that are missing, differ from the code, or that nothing generates any more."""
    wanted = pages()
    found = {path: root / path for path in wanted}
    differing = [
        path
        for path, file in found.items()
        if not file.exists() or file.read_text(encoding="utf-8") != wanted[path]
    ]
    return differing + _left_over(root, wanted)


def _left_over(root: Path, wanted: Mapping[str, str]) -> list[str]:
    there = sorted((root / REFERENCE / "schemas").glob("*.json"))
    names = [path.relative_to(root).as_posix() for path in there]
    return [name for name in names if name not in wanted]


def write(root: Path) -> list[str]:
    """Write the stale pages and give their names."""
    wanted, names = pages(), stale(root)
    for name in names:
        path = root / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()
    return names


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name stale pages")
    options = parser.parse_args(arguments)
    try:
        names = stale(root) if options.check else write(root)
    except Undescribed as error:
        print(f"error: {error}; describe it in scripts/generate_docs.py", file=sys.stderr)
        return 1
    for name in names:
        print(f"{'stale' if options.check else 'written'}  {name}")
    return 1 if options.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
