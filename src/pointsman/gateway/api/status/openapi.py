"""`/openapi.json`: OpenAPI 3.1, written from the table of routes and the types in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pointsman.gateway.api import shapes
from pointsman.gateway.api.models import ANSWER_HEADERS, CALLS
from pointsman.gateway.api.models import shapes as vendor_shapes
from pointsman.gateway.api.shapes import RpcRefusal
from pointsman.gateway.serving.route import JSON, TRACE, ErrorShape, Route, load_name
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
EVERYWHERE: Final = (400, 403, 408, 413, 417, 421, 503)
"""Any request can be refused for its form, its origin, its time, its size, its expectation or its
host, and for the memory that callers without a key share."""

PUBLISHED_NAMES: Final[Mapping[str, str]] = {
    "ActionWishBody": "GivenAction",
    "ResourceBudgetBody": "pointsman.agents.brainstate.written.GivenBudget",
    "pointsman.gateway.api.keys.handlers.GivenBudget": "pointsman.gateway.api.admin.GivenBudget",
}
"""Components whose class or module was renamed since their name was published."""

_TAGS: Final = {
    "": "dashboard",
    "assets": "dashboard",
    "v1": "models",
    "api": "api",
    "tlog": "api",
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


def openapi(routes: Iterable[Route]) -> Schema:
    """Return the description of routes."""
    in_order = sorted(routes, key=lambda route: (route.path, route.method))
    schemas, components = json_schemas(_kinds(in_order), _REF)
    paths: dict[str, dict[str, Schema]] = {}
    for route in in_order:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
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
    """Publish renamed classes under the component names that callers know."""
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
    "own_key": {"type": "apiKey", "in": "header", "name": "x-pointsman-key"},
}


def statuses(route: Route) -> tuple[int, ...]:
    """Return the errors that a route can end with."""
    found = {*EVERYWHERE, *route.errors}
    if route.scope != "none":
        found |= {401, 503}
    if _NAME.search(route.path):
        found.add(404)
    return tuple(sorted(found))


def _kinds(routes: Iterable[Route]) -> list[Any]:
    kinds: list[Any] = [*_ERRORS.values()]
    for route in routes:
        kinds += [_load_type(name) for name in (route.answer, route.body) if name]
    return [*dict.fromkeys(kinds)]


def _load_type(name: str) -> Any:
    return str if name == "str" else load_name(name)


def _operation(route: Route, schemas: Mapping[Any, Schema]) -> Schema:
    operation: Schema = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "tags": [_TAGS[route.path.split("/")[1]]],
        "parameters": _parameters(route),
        "responses": _responses(route, schemas),
        "security": [{"bearer": []}, {"api_key": []}, {"own_key": []}]
        if route.scope != "none"
        else [],
        "x-pointsman-scope": route.scope,
    }
    if route.body:
        kind = _load_type(route.body)
        schema = {"type": "string"} if kind is str else schemas[kind]
        operation["requestBody"] = {
            "required": True,
            "content": {route.body_media: {"schema": schema}},
        }
    return operation


def _operation_id(route: Route) -> str:
    words = re.sub(r"\W+", "_", route.path).strip("_")
    return f"{route.method.lower()}_{words}"


def _parameters(route: Route) -> list[Schema]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 512},
        }
        for name in _NAME.findall(route.path)
    ]
    named = (*route.parameters, TRACE) if route.call_name else route.parameters
    return in_path + [
        {"name": own.name, "in": own.place, "description": own.told, "schema": own.schema}
        for own in named
    ]


def _responses(route: Route, schemas: Mapping[Any, Schema]) -> Schema:
    schema = schemas[_load_type(route.answer)] if route.answer else {"type": "string"}
    content: Schema = {route.media: {"schema": schema}}
    if route.also:
        content[route.also] = {"schema": {"description": "the vendor's events"}}
    done: Schema = {"description": "done", "content": content}
    if route in CALLS:
        done["headers"] = {
            name: {"description": told, "schema": {"type": "string"}}
            for name, told in ANSWER_HEADERS.items()
        }
    error = schemas[_ERRORS[route.shape]]
    answers: Schema = {str(route.status): done}
    if route.bare:
        answers[str(route.bare)] = {"description": HTTPStatus(route.bare).phrase.lower()}
    for status in statuses(route):
        told = HTTPStatus(status).phrase.lower()
        answers[str(status)] = {"description": told, "content": {JSON: {"schema": error}}}
    return answers
