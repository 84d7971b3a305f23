"""`keys`: make, list and revoke the virtual keys that callers of the gateway carry."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import click
from msgspec.structs import asdict

from pointsman.access.caps import Limit, Per
from pointsman.access.keyring import ACCESS, KeptKey, Keyring
from pointsman.access.keys import (
    ENTROPY_BYTES,
    TENANT_PATTERN,
    Key,
    KeyPrivacy,
    key_token,
    state_of,
)
from pointsman.access.roles import ROLES, SCOPES, Role, Scope, scopes_of
from pointsman.app import Pointsman
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, count_text
from pointsman.errors import InputError
from pointsman.kernel.columns import pad_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text, read_instant
from pointsman.kernel.literal import MAX_USD
from pointsman.kernel.number import microusd, microusd_text
from pointsman.kernel.signing import SECRET_BYTES
from pointsman.storage.policies.settings import RateTerms
from pointsman.turns.registry.models import meant, model_id

MOST_NAME = 100
NO_KEY = "no key exists yet: model calls from this machine are served without one"
FIRST_KEY = "from now on every model call needs a key"


@click.group(cls=CommandGroup)
def keys() -> None:
    """Make, list and revoke the keys that callers carry."""


@keys.command()
@click.argument("name")
@click.option("--allow", multiple=True, metavar="MODEL", help="Only this model; may be repeated.")
@click.option("--budget", metavar="USD", help="The most it may spend.")
@click.option(
    "--per",
    type=click.Choice(["day", "month", "total"]),
    default="day",
    show_default=True,
    help="In which time; days and months are those of UTC.",
)
@click.option("--expires", metavar="INSTANT", help="When it ends, like 2026-11-15T14:05:00Z.")
@click.option(
    "--privacy",
    type=click.Choice(["auto", "local"]),
    default="auto",
    show_default=True,
    help="`local` keeps its calls on this machine.",
)
@click.option("--workspace", default="", metavar="DIR", help="The workspace its calls belong to.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    help="What it may do; may be repeated [its role's, else models].",
)
@click.option("--role", type=click.Choice(ROLES), help="What it may do among the agents.")
@click.option("--rpm", type=click.IntRange(min=1), help="Requests a minute.")
@click.option("--tpm", type=click.IntRange(min=1), help="Tokens a minute.")
@click.option("--concurrent", type=click.IntRange(min=1), help="Calls at one time.")
@click.option(
    "--tenant", default="", metavar="NAME", help="Whose records it reads and adds to [its own]."
)
@command
def create(  # noqa: PLR0913 - each is an option of its own
    session: Session,
    *,
    name: str,
    allow: tuple[str, ...],
    budget: str | None,
    per: Per,
    expires: str | None,
    privacy: KeyPrivacy,
    workspace: str,
    scopes: tuple[Scope, ...],
    role: Role | None,
    tenant: str,
    rpm: int | None,
    tpm: int | None,
    concurrent: int | None,
) -> None:
    """Make a key and show it: once, now, and never again."""
    _check_name(name)
    _check_tenant(tenant)
    limits = () if budget is None else (_limit(budget, per),)
    expires_at = None if expires is None else read_instant(expires)
    with _ring(session, create=True) as (pointsman, ring):
        now = pointsman.clock.now()
        if expires_at is not None and expires_at <= now:
            raise InputError(f"`{expires}` is past: the key could never be used")
        allowed = _read_models(session, allow, pointsman.in_force().ready.aliases)
        is_first = not ring.list_keys()
        key_id, token = key_token(secrets.token_bytes(ENTROPY_BYTES))
        key = Key(
            key_id,
            name,
            now,
            scopes=scopes_of(scopes, role),
            role=role or "",
            allowed_models=allowed,
            budgets=limits,
            privacy=privacy,
            workspace=workspace,
            expires_at=expires_at,
            tenant=tenant,
            limits=RateTerms(rpm, tpm, concurrent),
        )
        ring.create(key, token)
    lines = [f"key      {token}", f"id       {key_id}", f"name     {printable(name)}"]
    lines += ["note     the key is shown this once; only its digest is stored"]
    lines += [f"note     {FIRST_KEY}"] if is_first else []
    session.show("\n".join(lines), {"key": token, **_value(KeptKey(key, None, None), now)})


@keys.command("list")
@command
def list_(session: Session) -> None:
    """List every key, also those that ended; secrets are not stored and not shown."""
    with _ring(session) as (pointsman, ring):
        found, now = ring.list_keys(), pointsman.clock.now()
    lines = [_line(each, now) for each in found] or [NO_KEY]
    session.show("\n".join(lines), [_value(each, now) for each in found])


@keys.command()
@click.argument("name", metavar="ID")
@command
def revoke(session: Session, name: str) -> None:
    """End a key for good; the start of an id is enough."""
    with _ring(session) as (pointsman, ring):
        now = pointsman.clock.now()
        kept = ring.revoke(name, now)
    when = instant_text(kept.revoked_at or now)
    text = f"revoked  {kept.key.id}  {printable(kept.key.name)}  {when}"
    session.show(text, _value(kept, now))


@keys.command("rotate-signing")
@click.option(
    "--compromised-since",
    metavar="INSTANT",
    help="The old key may be in other hands since then: what it signed later is told by `verify`.",
)
@command
def rotate_signing(session: Session, compromised_since: str | None) -> None:
    """Replace the key that signs the ledger; old records stay proved. Stop all writers first."""
    since = None if compromised_since is None else read_instant(compromised_since)
    with session.open(create=False) as pointsman:
        # Imported here: few replace a key, and the writer of the ledger comes with it.
        from pointsman.operations.signing_keys import rotate_signing_key  # noqa: PLC0415 - see above

        now = pointsman.clock.now()
        found = rotate_signing_key(pointsman.home, secrets.token_bytes(SECRET_BYTES), now, since)
    sealed = sum(found.chains.values())
    held = f"{count_text(sealed, 'entry', 'entries')} in {count_text(len(found.chains), 'chain')}"
    lines = [
        f"signs as  {found.new_key_id}",
        f"replaced  {found.old_key_id}: it counts for {held}, and for nothing later",
        "note      publish the new id; other hosts of this ledger need both files: identity.json",
        "          and keys/signing",
    ]
    session.show("\n".join(lines), asdict(found))


@contextmanager
def _ring(session: Session, *, create: bool = False) -> Iterator[tuple[Pointsman, Keyring]]:
    with (
        session.open(create=create) as pointsman,
        closing(Keyring(pointsman.home.place(ACCESS))) as ring,
    ):
        yield pointsman, ring


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable():
        raise InputError(f"a key's name has 1 to {MOST_NAME} printable characters")


def _check_tenant(name: str) -> None:
    if re.fullmatch(TENANT_PATTERN, name, re.ASCII) is None:
        hint = "up to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
        raise InputError(f"`{name[:100]}` is no name of a tenant", hint=hint)


def _limit(budget: str, per: Per) -> Limit:
    amount = microusd(budget.removeprefix("$"))
    if not 0 <= amount <= MAX_USD * 1_000_000:
        raise InputError(f"`{budget}` is not an amount between 0 and {MAX_USD} dollars")
    return Limit(amount, per)


def _read_models(
    session: Session, names: Sequence[str], aliases: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the models meant; a model that is not configured yet may be allowed too."""
    found = []
    for name in names:
        model = aliases.get(name) or model_id(name)
        if model not in aliases:
            hint = meant(model, aliases) or f"known: {', '.join([*aliases][:8])}"
            if ":" not in model:
                raise InputError(f"`{name}` names no model", hint=hint)
            session.warn([f"`{name}` is not in models.yaml: {hint}"])
        found.append(model)
    return tuple(dict.fromkeys(found)) or None


def _line(kept: KeptKey, now: Instant) -> str:
    key = kept.key
    used = "never used" if kept.last_used_at is None else f"used {_day(kept.last_used_at)}"
    parts = [
        key.id,
        f"{state_of(key, kept.revoked_at, now):<8}",
        pad_line(key.name, 20),
        f"{','.join(key.scopes):<12}",
        f"made {_day(key.created_at)}",
        used,
    ]
    parts += [f"as {key.role}"] if key.role else []
    parts += [f"${microusd_text(each.limit_microusd)}/{each.per}" for each in key.budgets]
    parts += [f"until {instant_text(key.expires_at)}"] if key.expires_at is not None else []
    parts += ["local only"] if key.privacy == "local" else []
    parts += [f"of {key.tenant}"] if key.tenant else []
    parts += [f"in {key.workspace}"] if key.workspace else []
    parts += [" ".join(key.allowed_models)] if key.allowed_models is not None else []
    return printable("  ".join(parts))


def _value(kept: KeptKey, now: Instant) -> dict[str, object]:
    key = kept.key
    return {
        "id": key.id,
        "name": key.name,
        "state": state_of(key, kept.revoked_at, now),
        "scopes": key.scopes,
        "role": key.role or None,
        "tenant": key.tenant or key.id,
        "limits": asdict(key.limits),
        "allowed_models": key.allowed_models,
        "budgets": [
            {"limit_usd": microusd_text(each.limit_microusd), "per": each.per}
            for each in key.budgets
        ],
        "privacy": key.privacy,
        "workspace": key.workspace or None,
        "created_at": instant_text(key.created_at),
        "expires_at": _instant(key.expires_at),
        "revoked_at": _instant(kept.revoked_at),
        "last_used_at": _instant(kept.last_used_at),
    }


def _instant(at: Instant | None) -> str | None:
    return None if at is None else instant_text(at)


def _day(at: Instant) -> str:
    return instant_text(at)[:10]
