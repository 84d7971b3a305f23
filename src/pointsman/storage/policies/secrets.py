"""Which secrets a configuration may name, and whether they can be found. None is read here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from pointsman.errors import DocumentError
from pointsman.kernel.codes import Code
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.turns.registry.login import ProviderKey, SecretRef
from pointsman.turns.registry.models import ModelsFile, Provider

ADMIN_TOKEN: Final = "POINTSMAN_ADMIN_TOKEN"  # noqa: S105 - the name of a variable

_NO_FILES: Final = tuple(map(Path, ("/proc", "/sys")))
"""What lies there is the state of processes and machines: environments, open files, memory."""


class SecretSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a policy set over HTTP may name beside what its file names already.

    `env` are variables; `folder` is a folder of files, from the home where it is not absolute.
    """

    env: tuple[str, ...] = ()
    folder: str = ""


def is_resolved(provider: Provider | None, home: Path) -> bool:
    """Tell whether a provider is there and its secrets can be found."""
    return provider is not None and not missing_secrets(provider, home)


def missing_secrets(provider: Provider, home: Path) -> list[str]:
    """Name the secrets of a provider that cannot be found, as they are referenced."""
    keys = provider.api_key
    if provider.login is not None:
        # All of its parts are needed.
        return [key.label for _, key in provider.login.secrets() if not _is_found(key, home)]
    if keys == ():
        return ["api_key: the list is empty"]
    listed = keys if isinstance(keys, tuple) else (keys,)
    missing = [key.label for key in listed if key is not None and not _is_found(key, home)]
    # Of several keys one is enough: a call passes over those that are not there.
    return missing if len(missing) == len(listed) else []


def unusable_providers(models: ModelsFile, home: Path) -> list[str]:
    """Say of each provider whose secrets this process cannot find which ones these are."""
    found = ((name, missing_secrets(each, home)) for name, each in models.providers.items())
    return [
        f"`{name}` cannot be called without {', '.join(needs)}" for name, needs in found if needs
    ]


def _is_found(key: SecretRef, home: Path) -> bool:
    if isinstance(key, ProviderKey) and key.is_callers:
        return True  # each call brings it, or is told that it lacks it
    if is_forbidden(key, home):
        return False
    if key.env:
        return bool(os.environ.get(key.env))
    return (home / Path(key.file).expanduser()).is_file()


def is_forbidden(key: SecretRef, home: Path) -> bool:
    """Tell whether a reference leads to what no provider may get: the home's keys, the admin token.

    Links are followed, and a second name of a key's file is known by the file it is.
    """
    if key.env:
        return key.env == ADMIN_TOKEN
    keys, path = home / "keys", home / Path(key.file).expanduser()
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(each) for each in (Path(os.path.realpath(keys)), *_NO_FILES)):
        return True
    try:
        found = path.stat()
        return any(os.path.samestat(found, each.stat()) for each in keys.iterdir())
    except OSError:
        return False


def check_given_secrets(
    text: bytes, source: str, given: ModelsFile, known: ModelsFile, may: tuple[SecretSettings, Path]
) -> None:
    """Raise, with each place, where a `models.yaml` set over HTTP names a secret that it may not.

    `known` is the file as it stands, `may` the allow-list and the home.
    """
    standing = frozenset(_references(known))
    document = parse_yaml(text, source)
    hint = "`secrets: {env: [..], folder: ..}` of pointsman.yaml lists more"
    problems = [
        document.problem(("providers", name, "api_key"), Code.INVALID_VALUE, message, hint)
        for name, provider in given.providers.items()
        for message in _refusals(provider, standing, *may)
    ]
    if problems:
        raise DocumentError(tuple(problems))


def _refusals(
    provider: Provider, standing: frozenset[SecretRef], allowed: SecretSettings, home: Path
) -> Iterator[str]:
    for key in _keys_of(provider):
        if isinstance(key, ProviderKey) and key.is_callers:
            if key not in standing:
                yield "a policy set over HTTP may not send callers' own logins to a provider"
            continue
        named = f"the variable `{key.env[:100]}`" if key.env else f"the file `{key.file[:100]}`"
        if is_forbidden(key, home):
            yield f"no provider may be given {named}"
        elif key not in standing and not _is_listed(key, allowed, home):
            yield f"a policy set over HTTP may not name {named}"


def _is_listed(key: SecretRef, allowed: SecretSettings, home: Path) -> bool:
    if key.env:
        return key.env in allowed.env
    if not allowed.folder:
        return False
    folder = os.path.realpath(home / Path(allowed.folder).expanduser())
    real = Path(os.path.realpath(home / Path(key.file).expanduser()))
    return real != Path(folder) and real.is_relative_to(folder)


def _references(models: ModelsFile) -> Iterator[SecretRef]:
    for provider in models.providers.values():
        yield from _keys_of(provider)


def _keys_of(provider: Provider) -> tuple[SecretRef, ...]:
    keys = provider.api_key or ()
    own = () if provider.login is None else (key for _, key in provider.login.secrets())
    shown = () if provider.client_certificate is None else (provider.client_certificate,)
    return (*(keys if isinstance(keys, tuple) else (keys,)), *own, *shown)
