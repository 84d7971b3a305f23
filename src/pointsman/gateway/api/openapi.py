"""`/openapi.json`: OpenAPI 3.1, written from the table of routes and the types in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pointsman.gateway.api import shapes
from pointsman.gateway.api.described import CALLS
from pointsman.gateway.api.description import ANSWER_HEADERS, JSON, Description, ErrorShape, Key
from pointsman.gateway.api.mcp.shapes import RpcRefusal
from pointsman.gateway.api.models import shapes as vendor_shapes
from pointsman.kernel.schema import Schema, json_schemas
from pointsman.version import VERSION

_NAME: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"
_ERRORS: Final[Mapping[ErrorShape, type]] = {
    "own": shapes.ErrorAnswer,
    "openai": vendor_shapes.OpenAIErrorAnswer,
    "anthropic": vendor_shapes.AnthropicErrorAnswer,
    "rpc": RpcRefusal,
}
EVERYWHERE: Final = (400, 403, 408, 413, 421)
"""What any request can be refused with: its form, its origin, its time, its size, its host."""

PUBLISHED_NAMES: Final[Mapping[str, str]] = {
    "ResourceBudgetBody": "pointsman.agents.brainstate.written.GivenBudget",
    "pointsman.gateway.api.keys.handlers.GivenBudget": "pointsman.gateway.api.admin.GivenBudget",
}
"""Components whose class or module was renamed since their name was published."""

_TAGS: Final = {
    "": "dashboard",
    "assets": "dashboard",
    "v1": "models",
    "api": "api",
    "hooks": "api",
    "mcp": "api",
    "router": "agents",
    "brainstate": "agents",
    "selfrep": "agents",
    "jobs": "agents",
    "actions": "governance",
    "sem": "governance",
    "health": "operation",
    "metrics": "operation",
    "openapi.json": "operation",
}


def openapi(routes: Iterable[Key], described: Mapping[Key, Description]) -> Schema:
    """Describe routes; one that nobody described is an error."""
    found = {key: described[key] for key in sorted(routes, key=lambda each: (each[1], each[0]))}
    schemas, components = json_schemas(_kinds(found.values()), _REF)
    paths: dict[str, dict[str, Schema]] = {}
    for (method, path), each in found.items():
        operation = _operation(method, path, each, schemas)
        paths.setdefault(path, {})[method.lower()] = operation
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Pointsman",
            "version": VERSION,
            "description": "Decides where each piece of agent work goes, and can prove why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }
    return _publish_names(document)


def _publish_names(document: Schema) -> Schema:
    """Give renamed classes the component names that callers know."""
    text = msgspec.json.encode(document)
    for name, published in PUBLISHED_NAMES.items():
        text = text.replace(
            f'"{_REF.format(name=name)}"'.encode(), f'"{_REF.format(name=published)}"'.encode()
        )
    renamed: Schema = msgspec.json.decode(text)
    schemas: dict[str, Schema] = renamed["components"]["schemas"]
    renamed["components"]["schemas"] = {
        PUBLISHED_NAMES.get(name, name): schema
        if name not in PUBLISHED_NAMES
        else schema | {"title": PUBLISHED_NAMES[name].rpartition(".")[2]}
        for name, schema in schemas.items()
    }
    return renamed


_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def statuses(path: str, each: Description) -> tuple[int, ...]:
    """Give the errors that a route can end with."""
    found = {*EVERYWHERE, *each.errors}
    if each.needs_key:
        found |= {401, 503}
    if _NAME.search(path):
        found.add(404)
    return tuple(sorted(found))


def _kinds(described: Iterable[Description]) -> list[Any]:
    kinds: list[Any] = [*_ERRORS.values()]
    for each in described:
        kinds += [kind for kind in (each.answer, each.body) if kind is not None]
    return [*dict.fromkeys(kinds)]


def _operation(method: str, path: str, each: Description, schemas: Mapping[Any, Schema]) -> Schema:
    first = path.split("/")[1]
    operation: Schema = {
        "summary": each.told,
        "operationId": _operation_id(method, path),
        "tags": [_TAGS[first]],
        "parameters": _parameters(path, each),
        "responses": _responses((method, path), each, schemas),
        "security": [{"bearer": []}, {"api_key": []}] if each.needs_key else [],
        "x-pointsman-scope": each.access,
    }
    if each.body is not None:
        schema = {"type": "string"} if each.body is str else schemas[each.body]
        operation["requestBody"] = {
            "required": True,
            "content": {each.body_media: {"schema": schema}},
        }
    return operation


def _operation_id(method: str, path: str) -> str:
    words = re.sub(r"\W+", "_", path).strip("_")
    return f"{method.lower()}_{words}"


def _parameters(path: str, each: Description) -> list[Schema]:
    named = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 512},
        }
        for name in _NAME.findall(path)
    ]
    given = [
        {"name": own.name, "in": own.place, "description": own.told, "schema": own.schema}
        for own in each.parameters
    ]
    return [*named, *given]


def _responses(key: Key, each: Description, schemas: Mapping[Any, Schema]) -> Schema:
    schema = {"type": "string"} if each.answer is None else schemas[each.answer]
    content: Schema = {each.media: {"schema": schema}}
    if each.also:
        content[each.also] = {"schema": {"description": "the vendor's events"}}
    done: Schema = {"description": "done", "content": content}
    if key in CALLS:
        done["headers"] = {
            name: {"description": told, "schema": {"type": "string"}}
            for name, told in ANSWER_HEADERS.items()
        }
    error = schemas[_ERRORS[each.shape]]
    answers: Schema = {str(each.status): done}
    if each.bare:
        answers[str(each.bare)] = {"description": HTTPStatus(each.bare).phrase.lower()}
    for status in statuses(key[1], each):
        told = HTTPStatus(status).phrase.lower()
        answers[str(status)] = {"description": told, "content": {JSON: {"schema": error}}}
    return answers
