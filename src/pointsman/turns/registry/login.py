"""Where the secrets of a provider are found: its keys, or what its login is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import asdict

from pointsman.errors import InputError
from pointsman.turns.registry.services import Kind
from pointsman.turns.registry.upstream import read_base_url


class SecretRef(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a secret is found; never the secret itself."""

    env: str = ""
    file: str = ""

    @property
    def label(self) -> str:
        """Return the place in words."""
        return f"env {self.env}" if self.env else f"file {self.file}"


class ProviderKey(SecretRef, frozen=True, forbid_unknown_fields=True):
    """Where one of a provider's keys is found, and its share of the sessions beside the others."""

    weight: Annotated[int, Meta(ge=1, le=1000)] = 1


class ProviderLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """How to log in where a key alone is not enough.

    Azure takes the credentials of an Entra client: `tenant`, `client` and `secret`. `token_url`
    and `scope` stand in place of the vendor's own.
    """

    tenant: Annotated[str, Meta(pattern="^[A-Za-z0-9.-]{0,100}$")] = ""
    client: str = ""
    secret: SecretRef | None = None
    token_url: str = ""
    scope: str = ""

    def secrets(self) -> Iterator[tuple[str, SecretRef]]:
        """Return its secrets with the names they stand under."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, SecretRef):
                yield name, value


_NEEDED: Final[dict[Kind, tuple[str, ...]]] = {"azure": ("tenant", "client", "secret")}
_ALLOWED: Final[dict[Kind, tuple[str, ...]]] = {"azure": ("token_url", "scope")}


def login_problem(kind: Kind, login: ProviderLogin | None, *, has_key: bool) -> str:
    """Return why a kind of provider cannot take this login; empty where it can."""
    if login is None:
        return ""
    needed = _NEEDED.get(kind)
    if needed is None:
        return f"a provider of kind `{kind}` has no `login`: write `api_key`"
    if has_key:
        return "a provider has an `api_key` or a `login`, not both"
    given = [name for name, value in asdict(login).items() if value]
    if missing := [name for name in needed if name not in given]:
        return f"the login lacks `{missing[0]}`"
    if other := [name for name in given if name not in (*needed, *_ALLOWED[kind])]:
        return f"the login of kind `{kind}` has no `{other[0]}`"
    return _address_problem(login.token_url)


def _address_problem(url: str) -> str:
    try:
        if url:
            read_base_url(url)
    except InputError as error:
        return error.message.replace("base_url", "token_url")
    return ""
