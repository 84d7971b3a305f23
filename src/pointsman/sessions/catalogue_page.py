"""The published catalogue of events, written from the payloads themselves."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import inspect

from pointsman.sessions.catalogue import CATALOGUE, Payload

_INTRODUCTION = """\
# Events of a session

Every event is an entry of the ledger of kind `event.<type>`; its `ref` is the session. Round the
payload stand `session_id`, `turn_id`, `parent_event_id`, `parent_session_id` (of a worker),
`actor` and `sensitivity`. Money, seconds and fractions are decimal texts. Words of the
conversation are sealed: the ledger holds their keyed digest, the text itself can be erased.

The decision about a turn is its `route.decided`: it is recorded once, as `decision.turn`, and shown
in the stream of events under that name. A model that takes over is `decision.turn.fallback`, the
choice of a pattern that the user took `decision.turn.override`. A run beside the answer, made to
learn from it, is `decision.turn.shadow`, a judge's question about an answer `decision.turn.judge`;
`event.turn.shadowed` and `event.turn.judged`, whose `ref` is the turn, tell what came of them.

Two events are of no session. `event.policy.published`, whose `ref` is the publication, makes a
policy known: `number`, `previous`, `publication_id`, `policy_id`, `placement_id`, `by` and
`changed`, the files whose text is another than before. `event.policy.refused`, whose `ref` is such
an entry, says that it is not followed: `publication` and `errors`. The
[live feed](http.md#the-live-feed) tells both.
"""

_NAMES: dict[type[inspect.Type], str] = {
    inspect.NoneType: "nothing",
    inspect.BoolType: "true or false",
    inspect.IntType: "whole number",
}


def catalogue_page() -> str:
    """Write the page."""
    return "\n".join([_INTRODUCTION, *(_section(each) for each in CATALOGUE)])


def _section(kind: type[Payload]) -> str:
    head = f"## `{kind.type}`\n\n{kind.__doc__}\n\n{kind.sensitivity}; caused by: {kind.actor}.\n"
    rows = "\n".join(_rows(kind))
    return f"{head}\n| field | is |\n|---|---|\n{rows}\n"


def _rows(kind: type[Payload]) -> Iterator[str]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - payloads are structs
    for field in info.fields:
        words = " (words, sealed)" if field.name in kind.words else ""
        yield f"| `{field.name}` | {_type_text(field.type)}{words} |"


def _type_text(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType():
            return " or ".join(f"`{each}`" for each in kind.values)
        case inspect.UnionType():
            shown = [_type_text(each) for each in kind.types if not _is_seal(each)]
            return " or ".join(dict.fromkeys(shown))
        case inspect.VarTupleType():
            return f"list of {_type_text(kind.item_type)}"
        case _:
            return _NAMES.get(type(kind), "text")


def _is_seal(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType)
