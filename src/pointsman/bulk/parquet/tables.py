"""The tables of an export: their columns and what each says. Published in the documentation.

A new column goes to the end of its table; none changes its type or its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

TableName = Literal["decisions", "calls", "verdicts"]

ColumnType = Literal["string", "int64", "int32", "bool", "timestamp", "score", "rejections"]
"""`timestamp` is in microseconds, UTC; `score` a decimal with nine places."""


class Column(Struct, frozen=True):
    """One column."""

    name: str
    type: ColumnType
    told: str


_PLACE: Final = (
    Column("recorded_at", "timestamp", "when it was recorded"),
    Column("chain", "string", "the writer's chain in the ledger"),
    Column("seq", "int64", "the entry's number in its chain"),
)

DECISIONS: Final = (
    *_PLACE,
    Column("decision_id", "string", "the decision's own id"),
    Column("kind", "string", "`turn`, `placement`, `agent` or `branch`"),
    Column("linked", "string", "`fallback` where another model took a turn over, else empty"),
    Column("about", "string", "what was decided about: for a turn its id"),
    Column("session_id", "string", "the session, where there is one"),
    Column("is_preview", "bool", "whether nothing was to come of it"),
    Column("choice", "string", "the model, the route, the agent, or the labels; empty for none"),
    Column("slot", "string", "what chose a turn's model: `rule`, `pattern`, `global_default`, …"),
    Column("rule", "string", "the rule that chose a turn's model, or a placement's rule"),
    Column("rejections", "rejections", "the candidates of a turn that lost, and why"),
    Column("workspace", "string", "the turn's workspace, where there is one"),
    Column("is_worker", "bool", "whether a delegated worker asked"),
    Column("gate", "string", "what the placement lets through: `open`, `advice_cloud`, `local`, …"),
    Column("placement_rule", "string", "the rule of the placement that holds for the turn"),
    Column("message_digest", "string", "the keyed digest of the turn's message"),
    Column("message_chars", "int64", "how long that message is"),
    Column("elapsed_us", "int64", "how long deciding took, in microseconds"),
    Column("decision_version", "int32", "the version of the deciding code"),
    Column("policy_id", "string", "the content id of the policy"),
    Column("facts_id", "string", "the content id of the facts"),
    Column("product_version", "string", "the version of Pointsman that decided"),
    Column("message", "string", "what is kept of the text; only with `--text`, else null"),
)

CALLS: Final = (
    *_PLACE,
    Column("outcome_id", "string", "the entry's own id"),
    Column("decision_id", "string", "the decision that was acted on"),
    Column("status", "string", "`done`, `failed` or `unknown`"),
    Column("model", "string", "the model that was called"),
    Column("location", "string", "`local` or `cloud`"),
    Column("number", "int32", "which call of its turn it was, from 1"),
    Column("is_stream", "bool", "whether the answer was streamed"),
    Column("http_status", "int32", "what the provider answered with; 0 for nothing"),
    Column("error_class", "string", "what failed; empty where nothing did"),
    Column("attempts", "int32", "how often the provider was asked"),
    Column("stop_reason", "string", "why the model stopped"),
    Column("elapsed_us", "int64", "the whole call, in microseconds"),
    Column("first_byte_us", "int64", "until the first byte of the answer"),
    Column("is_charged", "bool", "whether money was counted; the columns below are null if not"),
    Column("spent_at", "timestamp", "when the money was reserved: it fixes the day"),
    Column("key_id", "string", "the key that asked"),
    Column("session_id", "string", "the session, where there is one"),
    Column("workspace", "string", "the workspace, where there is one"),
    Column("input_tokens", "int64", "tokens read, but for those of a cache"),
    Column("output_tokens", "int64", "tokens written"),
    Column("cached_input_tokens", "int64", "tokens read from a cache"),
    Column("cache_creation_input_tokens", "int64", "tokens put into a cache"),
    Column("cost_microusd", "int64", "in millionths of a dollar; null where no price is known"),
    Column("price_version", "string", "the price table that was used"),
    Column("is_estimated", "bool", "whether usage or a price was guessed"),
)

VERDICTS: Final = (
    *_PLACE,
    Column("verdict_id", "string", "the entry's own id"),
    Column("turn_id", "string", "the turn that was judged"),
    Column("source", "string", "`given` over HTTP, `said` in a chat, or `shown` by an act"),
    Column("score", "score", "how good it was, from 0 to 1"),
    Column("confidence", "score", "how sure that is, from 0 to 1"),
    Column("key_id", "string", "the key that judged, where one did"),
)

TABLES: Final[Mapping[TableName, tuple[Column, ...]]] = MappingProxyType(
    {"decisions": DECISIONS, "calls": CALLS, "verdicts": VERDICTS}
)

REJECTION: Final = ("slot", "rule", "model", "failure")
"""What a rejection says, all of it text."""
