"""Compare the product with the list of its public names under tests/contract/public.

The list is made from living objects (the command tree, the routes, the schemas, the recorded
structs); constants such as codes and texts come from the parsed modules. No line names a module,
an internal class or a function, so renames and moves inside the product leave the list alone.

With --check nothing is written; the run ends with 1 and lists every difference. Without it, new
lines are written. A line that is gone is written only with --drop, and shows in the diff.
"""

import argparse
import ast
import asyncio
import gc
import importlib
import inspect
import json
import pkgutil
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_args, get_type_hints

import click
import msgspec
from generate_docs import SCHEMAS
from mcp import Client

import pointsman
from pointsman.app import Pointsman
from pointsman.cli.main import main as command
from pointsman.errors import PointsmanError
from pointsman.gateway.api.feed.events import EVENT_NAMES
from pointsman.gateway.api.status.handlers import GAUGES
from pointsman.gateway.api.status.openapi import openapi
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.telemetry.metrics import COUNTERS, HISTOGRAMS
from pointsman.gateway.telemetry.otel import attributes
from pointsman.gateway.telemetry.tracing import CallSpan
from pointsman.kernel.canonical import Form
from pointsman.mcp.server import ToolServer
from pointsman.mcp.visitor import HomeOwner, Service
from pointsman.sessions.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "contract" / "public"

ROOMS: Final = tuple(
    f"pointsman.{each}."
    for each in (
        "kernel",
        "turns",
        "placement",
        "branches",
        "agents",
        "expressions",
        "brainstate",
        "governance",
    )
)
"""The packages whose texts are part of recorded decisions."""

_CODE = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+\.?")
_INTERNAL = re.compile(r"pointsman\.(?!yaml$).*|.*\.(?:sql|py|tcss|i8|sock|html|txt)|numpy\..*")
_HEADER = re.compile(r"(?:x|anthropic|openai|mcp)-[a-z0-9-]+|retry-after|request-id|traceparent")
_ENVIRONMENT = re.compile(r"(?:POINTSMAN|OTEL)_[A-Z_]+")
_SENTENCE = re.compile(r"(?s)(?=.*[A-Za-z]{2}).* ")
_WORDS = {"title", "description", "$schema", "$id", "$defs", "examples"}
_SHAPES = ("properties", "required", "additionalProperties", "items", "prefixItems", "type")

Schema = Mapping[str, Any]
Lines = Iterable[str]


def public_names() -> dict[str, Lines]:
    """List every public name, by the name of its file."""
    modules = _import_all()
    trees = {each.__name__: _parse_module(each) for each in modules}
    constants = sorted({text for tree in trees.values() for text in _constants(tree)})
    document = json.loads(msgspec.json.encode(openapi(ROUTES.values())))
    return {
        "facade": _facade(),
        "errors": _errors(),
        "cli": _commands(command, "pointsman"),
        "routes": _routes(),
        "openapi": _openapi_shapes(document),
        "openapi-schema-names": document["components"]["schemas"],
        "headers": (each for each in constants if _HEADER.fullmatch(each)),
        "sse-events": _sse_events(trees.values()),
        "session-events": _session_events(),
        "spans": _span_attributes(),
        "mcp": asyncio.run(_mcp()),
        "settings": _settings(),
        "recorded": _recorded_fields(),
        "codes": _codes(constants),
        "texts": _texts(trees),
        "metrics": _metrics(trees.values()),
        "logs": _logs(),
        "environment": (each for each in constants if _ENVIRONMENT.fullmatch(each)),
        "sqlite": _sqlite(),
        "postgres": _postgres(),
    }


# Modules and their constants.


def _import_all() -> list[ModuleType]:
    found = pkgutil.walk_packages(pointsman.__path__, "pointsman.")
    return [pointsman, *(importlib.import_module(each.name) for each in found)]


def _parse_module(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module) or "")


def _constants(tree: ast.AST, *, is_raised: bool = True) -> Iterator[str]:
    """List the texts of a tree, placeholders as `{}`; docstrings are left out.

    Without `is_raised` the words of raised errors are left out too.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Raise) and not is_raised:
            continue
        text = _text(node)
        if text is not None:
            yield text
        if not isinstance(node, ast.JoinedStr):
            yield from _constants(node, is_raised=is_raised)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or "{}" for each in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        return node.value.decode("latin-1")
    return None


def _texts(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    for name, tree in trees.items():
        if name.startswith(ROOMS):
            for text in _constants(tree, is_raised=False):
                if _SENTENCE.search(text):
                    yield json.dumps(text, ensure_ascii=False)


def _codes(constants: Lines) -> Iterator[str]:
    for each in constants:
        if _CODE.fullmatch(each) and not _INTERNAL.fullmatch(each):
            yield each
    for kind in _kinds_of(StrEnum):
        if kind.__module__.startswith("pointsman"):
            for member in kind:
                meaning = getattr(member, "meaning", "")
                yield f"{member.value or '(empty)'}: {meaning}" if meaning else member.value


def _kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds_of(each)


# Python, the command line, HTTP and MCP.


def _facade() -> Iterator[str]:
    for name in pointsman.__all__:
        value = getattr(pointsman, name)
        yield f"{name}{_signature(value)}"
        if inspect.isclass(value):
            fields = getattr(value, "__struct_fields__", ())
            yield from (f"{name}.{each}" for each in fields)
            for member, inner in _own_members(value).items():
                if not member.startswith("_") and member not in fields:
                    yield f"{name}.{member}{_signature(inner)}"


def _own_members(kind: type) -> dict[str, object]:
    """List the members of a class, without the ones of Python's own classes above it."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("pointsman")]
    return {name: value for each in reversed(ours) for name, value in vars(each).items()}


def _signature(value: object) -> str:
    """Write parameters without their types: types may be named after internal classes."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if not inspect.isroutine(value) and not inspect.isclass(value):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):  # a slot or a class that Python cannot describe
        return ""
    bare = [
        each.replace(
            annotation=inspect.Parameter.empty,
            default=each.default if each.default is each.empty else ...,
        )
        for each in found.parameters.values()
    ]
    return str(inspect.Signature(bare)).replace("Ellipsis", "…").replace("...", "…")


def _errors() -> Iterator[str]:
    for kind in (PointsmanError, *_kinds_of(PointsmanError)):
        if kind.__module__.startswith("pointsman"):
            above = ", ".join(each.__name__ for each in kind.__bases__)
            yield (
                f"{kind.__name__}({above}): code {kind.code}, exit {kind.exit_code},"
                f" status {kind.http_status}"
            )


def _commands(each: click.Command, path: str) -> Iterator[str]:
    yield path
    for parameter in each.params:
        yield f"{path} {_parameter(parameter)}"
    if isinstance(each, click.Group):
        context = click.Context(each)
        for name in each.list_commands(context):
            inner = each.get_command(context, name)
            if inner is not None:
                yield from _commands(inner, f"{path} {name}")


def _parameter(each: click.Parameter) -> str:
    told = each.to_info_dict()
    kind = told["type"]
    parts = [
        "/".join([*told["opts"], *told["secondary_opts"]]) if told["param_type_name"] == "option"
        else (each.name or "").upper(),
        kind.get("name") or kind["param_type"],
        *(str(choice) for choice in kind.get("choices", ())),
        *(name for name in ("required", "multiple", "is_flag") if told.get(name)),
    ]  # fmt: skip
    if told["nargs"] != 1:
        parts.append(f"nargs={told['nargs']}")
    if told.get("default") is not None and not callable(each.default):
        parts.append(f"default={told['default']!r}")
    if told.get("envvar"):
        parts.append(f"envvar={told['envvar']}")
    return " ".join(parts)


def _routes() -> Iterator[str]:
    for route in ROUTES.values():
        row = route.roles
        roles = " ".join(f"{role}={getattr(row, role)}" for role in row.__struct_fields__)
        keyless = " keyless" if route.is_keyless else ""
        yield f"{route.method} {route.path} scope={route.scope} {roles}{keyless}"


def _openapi_shapes(document: Schema) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, told in operations.items():
            place = f"{method.upper()} {path}"
            for each in told["parameters"]:
                yield f"{place} {each['in']} {each['name']}: {shape(each['schema'], schemas)}"
            for media, body in told.get("requestBody", {}).get("content", {}).items():
                yield f"{place} takes {media}: {shape(body['schema'], schemas)}"
            for status, response in told["responses"].items():
                yield from _response(f"{place} {status}", response, schemas)
    yield from (f"schema {shape(each, schemas)}" for each in schemas.values())


def _response(place: str, response: Schema, schemas: Schema) -> Iterator[str]:
    yield place
    yield from (f"{place} header {name}" for name in response.get("headers", ()))
    for media, body in response.get("content", {}).items():
        yield f"{place} {media}: {shape(body.get('schema', {}), schemas)}"


def shape(schema: Any, schemas: Schema) -> str:
    """Write a JSON Schema on one line, without words; a reference by the fields it leads to."""
    if not isinstance(schema, Mapping):
        return json.dumps(schema, ensure_ascii=False)
    if "$ref" in schema:
        found = schemas[schema["$ref"].rpartition("/")[2]]
        return "{" + ", ".join(sorted(found.get("properties", ()))) + "}" + _tail(found, schemas)
    if "properties" in schema:
        required = schema.get("required", ())
        fields = (
            f"{name}{'' if name in required else '?'}: {shape(each, schemas)}"
            for name, each in sorted(schema["properties"].items())
        )
        closed = "" if schema.get("additionalProperties", True) else " closed"
        return "{" + ", ".join(fields) + "}" + closed + _rest(schema, schemas)
    return _plain_shape(schema, schemas)


def _tail(schema: Schema, schemas: Schema) -> str:
    return "" if "properties" in schema else f" {_plain_shape(schema, schemas)}"


def _plain_shape(schema: Schema, schemas: Schema) -> str:
    kind = schema.get("type", "any")
    text = "|".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in schema:
        text += f"[{shape(schema['items'], schemas)}]"
    if "prefixItems" in schema:
        text += "(" + ", ".join(shape(each, schemas) for each in schema["prefixItems"]) + ")"
    if isinstance(schema.get("additionalProperties"), Mapping):
        text += f"<{shape(schema['additionalProperties'], schemas)}>"
    return text + _rest(schema, schemas)


def _rest(schema: Schema, schemas: Schema) -> str:
    """Write what else a schema says: bounds, patterns, defaults, alternatives."""
    found = []
    for key, value in sorted(schema.items()):
        if key in _WORDS or key in _SHAPES:
            continue
        if key in {"anyOf", "oneOf", "allOf"}:
            found.append(f"{key} " + " | ".join(sorted(shape(each, schemas) for each in value)))
        elif key == "discriminator":
            found.append(f"by {value['propertyName']}: {', '.join(sorted(value['mapping']))}")
        elif isinstance(value, Mapping) and key != "default":
            found.append(f"{key}={shape(value, schemas)}")
        else:
            found.append(f"{key}={json.dumps(value, ensure_ascii=False, sort_keys=True)}")
    return f" ({'; '.join(found)})" if found else ""


def _sse_events(trees: Iterable[ast.Module]) -> Iterator[str]:
    """List the named events of streams: the feed's, and constants handed to the writer of one."""
    yield from EVENT_NAMES
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and "sse" in call.func.id.split("_") and call.args:
            text = _text(call.args[0])
            if text is not None:
                yield text


def _session_events() -> Iterator[str]:
    _, components = msgspec.json.schema_components(CATALOGUE, ref_template="{name}")
    for each in CATALOGUE:
        yield f"{each.type} {each.sensitivity} {shape(components[each.__name__], components)}"
    yield from (f"… {shape(each, components)}" for each in components.values())


def _span_attributes() -> set[str]:
    """List the attributes of two spans that know everything: a good call and a failed one."""
    samples = {"str": "x", "tuple[str, ...]": ("x",), "TraceContext | None": None}
    types = {name: CallSpan.__annotations__[name] for name in CallSpan.__struct_fields__}
    good = {name: samples.get(type_, 1) for name, type_ in types.items()}
    spans = (CallSpan(**{**good, "error_class": ""}), CallSpan(**good))
    return {name for span in spans for name, _ in attributes(span)}


async def _mcp() -> list[str]:
    """List the tools of a server of an empty home, as the official client does."""
    with tempfile.TemporaryDirectory() as folder, Pointsman(Path(folder) / "home") as made:
        service = Service(made, lambda: made.conversations.services, keeps_session=True)
        owner = HomeOwner()
        server = ToolServer(service, lambda _request: owner)
        async with Client(server.server) as client:
            tools = (await client.list_tools()).tools
            templates = (await client.list_resource_templates()).resource_templates
            prompts = (await client.list_prompts()).prompts
            resources = (await client.list_resources()).resources
        await server.delegations.close()
    found = [f"resource {each.uri}" for each in resources]
    found += [f"template {each.uri_template} {each.name} {each.mime_type}" for each in templates]
    for prompt in prompts:
        given = prompt.arguments or ()
        arguments = ", ".join(f"{each.name}{'' if each.required else '?'}" for each in given)
        found.append(f"prompt {prompt.name}({arguments})")
    for tool in tools:
        for side, schema in (("takes", tool.input_schema), ("gives", tool.output_schema or {})):
            shared = schema.get("$defs", {})
            found.append(f"tool {tool.name} {side} {shape(schema, shared)}")
            for each in shared.values():
                found.append(f"tool {tool.name} {side} … {shape(each, shared)}")
    return found


def _settings() -> Iterator[str]:
    for name, (make, _) in SCHEMAS.items():
        schema = json.loads(json.dumps(make()))
        shared = schema.get("$defs", {})
        yield f"{name} {shape(schema, shared)}"
        yield from (f"{name} … {shape(each, shared)}" for each in shared.values())


# Records, metrics, logs and tables.


def _recorded_fields() -> Iterator[str]:
    """List the fields of every struct that has a canonical form, and of those inside it."""
    kinds = {each.kind for each in gc.get_objects() if isinstance(each, Form)}
    ours = [each for each in kinds if each.__module__.startswith("pointsman")]
    _, components = msgspec.json.schema_components(ours, ref_template="{name}")
    return (shape(each, components) for each in components.values())


def _metrics(trees: Iterable[ast.Module]) -> Iterator[str]:
    for kind, told in (("counter", COUNTERS), ("histogram", HISTOGRAMS), ("gauge", GAUGES)):
        yield from (f"{kind} {name}" for name in told)
    for tree in trees:
        if any(each.startswith("pointsman_") for each in _constants(tree)):
            yield from _labels(tree)


def _labels(tree: ast.Module) -> Iterator[str]:
    """List the names in `(("model", …), ("result", …))`, in the modules that name a metric."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and node.elts:
            pairs = [each for each in node.elts if isinstance(each, ast.Tuple)]
            names = [_text(each.elts[0]) for each in pairs if len(each.elts) == 2]
            yield from (f"label {name}" for name in names if name and name.isidentifier())


def _logs() -> Iterator[str]:
    for kind in _kinds_of(msgspec.Struct):
        fields = getattr(kind, "__struct_fields__", ())
        if {"time", "level", "event"} <= {*fields}:
            _, components = msgspec.json.schema_components([kind], ref_template="{name}")
            yield from (shape(each, components) for each in components.values())
            for event in get_args(get_type_hints(kind)["event"]):
                yield f"{event}: {', '.join(sorted(fields))}"


def _sql_files(part: str) -> list[Path]:
    """List the files that make tables, of one kind of database."""
    found = Path(pointsman.__path__[0]).rglob("*.sql")
    ours = [each for each in found if part in each.parts and not each.stem.endswith("queries")]
    return sorted(ours, key=lambda each: each.name)


def _sqlite() -> Iterator[str]:
    for file in _sql_files("sqlite"):
        database = sqlite3.connect(":memory:")
        database.executescript(file.read_text("utf-8"))
        for table, kind in database.execute("select name, type from sqlite_master").fetchall():
            yield f"{file.stem} {kind} {table}"
            for _, name, type_, not_null, default, key in database.execute(
                "select * from pragma_table_info(?)", (table,)
            ):
                flags = f"not_null={not_null} default={default} key={key}"
                yield f"{file.stem} {table}.{name} {type_} {flags}"
        database.close()


def _postgres() -> Iterator[str]:
    """List the statements of the migrations, each on one line: a migration never changes."""
    for file in _sql_files("migrations"):
        text = re.sub(r"--[^\n]*", "", file.read_text("utf-8"))
        for statement in text.split(";"):
            if statement.strip():
                yield f"{file.stem} {' '.join(statement.split())}"


# The committed list.


def read_list(folder: Path) -> dict[str, list[str]]:
    """Read the committed names, by the name of their file."""
    return {
        path.stem: path.read_text("utf-8").splitlines() for path in sorted(folder.glob("*.txt"))
    }


def differences(known: Mapping[str, Lines], living: Mapping[str, Lines]) -> list[str]:
    """List every name that is gone (`-`) and every new one (`+`)."""
    found = []
    for name in sorted({*known, *living}):
        old, new = {*known.get(name, ())}, {*living.get(name, ())}
        found += [f"- {name}: {each}" for each in sorted(old - new)]
        found += [f"+ {name}: {each}" for each in sorted(new - old)]
    return found


def write_list(folder: Path, living: Mapping[str, Lines], *, is_dropping: bool) -> list[str]:
    """Add the new names; remove the ones that are gone only when `is_dropping`. List the changes.

    Names that are gone and stay in the list are listed too: the check goes on to fail for them.
    """
    known = read_list(folder)
    folder.mkdir(parents=True, exist_ok=True)
    living = {name: [*lines] for name, lines in living.items()}
    found = differences(known, living)
    for name in sorted({*known, *living}):
        kept = () if is_dropping else known.get(name, ())
        lines = sorted({*living.get(name, ()), *kept})
        (folder / f"{name}.txt").write_text("".join(f"{each}\n" for each in lines), "utf-8")
    return found


def main(
    arguments: list[str] | None = None,
    folder: Path = LIST,
    living: Mapping[str, Lines] | None = None,
) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; list differences")
    parser.add_argument("--drop", action="store_true", help="remove names that are gone, too")
    options = parser.parse_args(arguments)
    living = public_names() if living is None else living
    living = {name: sorted({*lines}) for name, lines in living.items()}
    if options.check:
        found = differences(read_list(folder), living)
    else:
        found = write_list(folder, living, is_dropping=options.drop)
    print("\n".join(found) or "public names: no difference")
    gone = sum(each.startswith("-") for each in found)
    if options.check and found:
        print("accept additions with `make public-names`; a name that is gone breaks a caller")
    elif gone and not options.drop:
        print(f"{gone} names are gone: `make public-names DROP=1` removes them from the list")
    return 1 if (options.check and found) or (gone and not options.drop) else 0


if __name__ == "__main__":
    sys.exit(main())
