"""Where the secrets of a provider are found: its keys, or what its login is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field
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
    """Where one of a provider's keys is found, and its share of the sessions beside the others.

    `from: caller` stands for the login that each caller has at the provider and sends along.
    """

    weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    origin: Literal["", "caller"] = field(default="", name="from")

    @property
    def label(self) -> str:
        """Return the place in words."""
        return "the caller's own login" if self.is_callers else super().label

    @property
    def is_callers(self) -> bool:
        """Tell whether each caller brings a login of their own."""
        return self.origin == "caller"


class ProviderLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """How to log in where a key alone is not enough.

    Azure takes the credentials of an Entra client: `tenant`, `client` and `secret`. Bedrock takes
    the keys of an account, `access_key` and `secret_key`, or those of a `profile`, and a `role`
    that these assume. Vertex takes the file of a `service_account`. `token_url` and `scope` stand
    in place of the vendor's own.
    """

    tenant: Annotated[str, Meta(pattern="^[A-Za-z0-9.-]{0,100}$")] = ""
    client: str = ""
    secret: SecretRef | None = None
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None
    session_token: SecretRef | None = None
    service_account: SecretRef | None = None
    profile: str = ""
    profile_file: str = "~/.aws/credentials"
    role: str = ""
    external_id: str = ""
    token_url: str = ""
    scope: str = ""

    def secrets(self) -> Iterator[tuple[str, SecretRef]]:
        """Return its secrets with the names they stand under."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, SecretRef):
                yield name, value
        if self.profile:
            yield "profile", SecretRef(file=self.profile_file)


_KEYS: Final = ("access_key", "secret_key")
_NEEDED: Final[dict[Kind, tuple[str, ...]]] = {
    "azure": ("tenant", "client", "secret"),
    "bedrock": _KEYS,
    "vertex": ("service_account",),
}
_ALLOWED: Final[dict[Kind, tuple[str, ...]]] = {
    "azure": ("token_url", "scope"),
    "vertex": ("token_url", "scope"),
    "bedrock": ("session_token", "profile", "profile_file", "role", "external_id", "token_url"),
}


def login_problem(kind: Kind, login: ProviderLogin | None, *, has_key: bool) -> str:
    """Return why a kind of provider cannot take this login; empty where it can."""
    if login is None:
        return ""
    needed = _NEEDED.get(kind)
    if needed is None:
        return f"a provider of kind `{kind}` has no `login`: write `api_key`"
    if has_key:
        return "a provider has an `api_key` or a `login`, not both"
    return _parts_problem(kind, login, needed) or _address_problem(login.token_url)


def _parts_problem(kind: Kind, login: ProviderLogin, needed: tuple[str, ...]) -> str:
    usual = asdict(ProviderLogin())
    given = [name for name, value in asdict(login).items() if value != usual[name]]
    if login.profile:
        if any(name in given for name in (*_KEYS, "session_token")):
            return "a login has keys or a `profile`, not both"
        needed = ("profile",)
    if missing := [name for name in needed if name not in given]:
        return f"the login lacks `{missing[0]}`"
    if other := [name for name in given if name not in (*needed, *_ALLOWED[kind])]:
        return f"the login of kind `{kind}` has no `{other[0]}`"
    return ""


def _address_problem(url: str) -> str:
    try:
        if url:
            read_base_url(url)
    except InputError as error:
        return error.message.replace("base_url", "token_url")
    return ""
