"""Everything in the providers of `models.yaml` that cannot work, each at its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pointsman.errors import InputError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.turns.registry.login import ProviderKey, SecretRef, login_problem
from pointsman.turns.registry.services import SERVICE_BY_NAME, SPOKEN, Wire, WireFormat
from pointsman.turns.registry.upstream import read_base_url, read_headers

if TYPE_CHECKING:
    from pointsman.turns.registry.models import Provider

    Providers = Mapping[str, Provider]


def provider_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    """Return every problem of the providers."""
    yield from _secret_problems(providers, document)
    yield from _shared_login_problems(providers, document)
    yield from _path_problems(providers, document)
    yield from _usage_problems(providers, document)
    yield from _upstream_problems(providers, document)


def spoken_to(provider: Provider, model: str) -> frozenset[WireFormat]:
    """Return the wire formats in which a provider is surely spoken to about a model."""
    if provider.kind == "vertex":
        return frozenset({"messages" if "claude" in model else "gemini"})
    known: tuple[WireFormat, ...] = provider.speaks or SPOKEN[provider.kind]
    usual = frozenset(each for each in known if each != "responses")
    return frozenset(known) if provider.speaks else usual


def callers_wire(provider: Provider) -> Wire | None:
    """Return the format in which callers bring a login of their own; None where none can."""
    service = SERVICE_BY_NAME.get(provider.kind)
    wire = None if service is None else service.wire
    return wire if wire in {"openai", "anthropic"} else None


def has_own_address(provider: Provider) -> bool:
    """Tell whether its kind has one address for all customers."""
    address = "fixed" if provider.kind == "embedded" else SERVICE_BY_NAME[provider.kind].base_url
    return bool(address) and "{" not in address


def _path_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    for name, provider in providers.items():
        at: Path = ("providers", name, "path")
        if provider.path and provider.kind != "embedded":
            message = "only an `embedded` provider runs a file"
            yield document.problem(at, Code.INVALID_VALUE, message)


def _usage_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    for name, provider in providers.items():
        if provider.kind == "anthropic" and provider.stream_usage == "as_asked":
            at: Path = ("providers", name, "stream_usage")
            message = "an `anthropic` provider always tells what a stream used"
            yield document.problem(at, Code.INVALID_VALUE, message, "leave `stream_usage` out")


def _upstream_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    """Find what the gateway would refuse when it opens the providers."""
    for name, provider in providers.items():
        at: Path = ("providers", name)
        if provider.kind == "embedded":
            continue
        for key, read in (("base_url", _read_address), ("headers", _read_headers)):
            try:
                read(provider)
            except InputError as error:
                yield document.problem((*at, key), Code.INVALID_VALUE, error.message, error.hint)
        yield from _place_problems(provider, at, document)
        for index, dialect in enumerate(provider.speaks):
            if dialect not in SPOKEN[provider.kind]:
                message = f"a provider of kind `{provider.kind}` cannot speak `{dialect}`"
                path = (*at, "speaks", index)
                yield document.problem(path, Code.INVALID_VALUE, message)


def _place_problems(provider: Provider, at: Path, document: Document) -> Iterable[Problem]:
    """Find the parts that a customer's own address lacks."""
    address = SERVICE_BY_NAME[provider.kind].base_url
    has_region = "{region}" in address
    message = f"a provider of kind `{provider.kind}` needs its"
    if has_region and not provider.region:
        yield document.problem(at, Code.MISSING_KEY, f"{message} `region`")
    elif not (provider.base_url or address):
        yield document.problem(at, Code.MISSING_KEY, f"{message} `base_url`")
    if (provider.kind == "vertex") != bool(provider.project):
        message = "a provider of kind `vertex`, and no other, has a `project`"
        yield document.problem((*at, "project"), Code.INVALID_VALUE, message)
    if provider.region and not has_region:
        message = f"a provider of kind `{provider.kind}` has no `region`"
        yield document.problem((*at, "region"), Code.INVALID_VALUE, message)


def _read_address(provider: Provider) -> None:
    if provider.base_url:
        read_base_url(provider.base_url)


def _read_headers(provider: Provider) -> None:
    read_headers(provider.headers)


def _secret_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    for name, provider in providers.items():
        at: Path = ("providers", name, "api_key")
        given = provider.api_key
        if message := login_problem(provider.kind, provider.login, has_key=given is not None):
            yield document.problem(("providers", name, "login"), Code.INVALID_VALUE, message)
        if provider.api_version and provider.kind != "azure":
            message = "only an `azure` provider has an `api_version`"
            yield document.problem((*at[:2], "api_version"), Code.INVALID_VALUE, message)
        listed = given if isinstance(given, tuple) else ()
        keys: list[tuple[Path, SecretRef]] = [((*at, i), key) for i, key in enumerate(listed)]
        if isinstance(given, SecretRef):
            keys.append((at, given))
        if provider.login is not None:
            keys += [((*at[:2], "login", at_), key) for at_, key in provider.login.secrets()]
        certificate = provider.client_certificate
        if certificate is not None and (certificate.env or not certificate.file):
            message = "a certificate is named by `file`"
            shown: Path = ("providers", name, "client_certificate")
            yield document.problem(shown, Code.INVALID_VALUE, message)
        for path, key in keys:
            if message := _key_problem(provider, key):
                yield document.problem(path, Code.INVALID_VALUE, message)


def _key_problem(provider: Provider, key: SecretRef) -> str:
    """Say why a key cannot be found by its reference; empty where it can."""
    if isinstance(key, ProviderKey) and key.is_callers:
        return _caller_problem(provider, key)
    is_one = bool(key.env) != bool(key.file)
    return "" if is_one else "a secret is named by either `env` or `file`"


def _caller_problem(provider: Provider, key: ProviderKey) -> str:
    """Say why callers cannot bring logins of their own to this provider; empty where they can."""
    if isinstance(provider.api_key, tuple):
        return "`from: caller` stands alone, not in a list of keys"
    if key.env or key.file:
        return "`from: caller` has neither `env` nor `file`"
    if provider.kind == "embedded" or callers_wire(provider) is None:
        return f"a provider of kind `{provider.kind}` takes no login of a caller"
    return ""


def _shared_login_problems(providers: Providers, document: Document) -> Iterable[Problem]:
    """Find providers of one format that would be sent each other's logins."""
    first: dict[Wire, str] = {}
    for name, provider in providers.items():
        wire = callers_wire(provider) if provider.takes_callers_login else None
        if wire is not None and first.setdefault(wire, name) != name:
            message = (
                f"callers bring one login in the format of `{wire}`, and it is `{first[wire]}`'s"
            )
            at: Path = ("providers", name, "api_key")
            yield document.problem(at, Code.INVALID_VALUE, message)
