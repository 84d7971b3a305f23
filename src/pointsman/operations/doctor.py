"""What `pointsman doctor` looks at: everything that can be checked without changing anything."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Literal

import apsw
from msgspec import Struct

from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerUnavailable, PointsmanError, WeightsError
from pointsman.jobs.privacy import LET_THROUGH
from pointsman.providers.embedded import minilm
from pointsman.storage.home import OPEN_TO_OTHERS, Home
from pointsman.storage.policies.agents_file import AgentsFiles
from pointsman.storage.policies.decision_files import DecisionFiles
from pointsman.storage.policies.policies import InForce
from pointsman.storage.policies.secrets import missing_secrets
from pointsman.storage.policies.sensor_files import SensorFiles
from pointsman.storage.policies.settings import Settings
from pointsman.storage.store_url import shared_store
from pointsman.storage.stores.entries import database_damage
from pointsman.turns.registry.models import provider_of

LITTLE_SPACE = 100 * 1024 * 1024
SLOW_SYNC_MS = 50
DEFAULTS = Settings()


class Finding(Struct, frozen=True):
    """One thing looked at, how it is, and what to do about it."""

    state: Literal["ok", "warning", "fault"]
    subject: str
    detail: str
    hint: str = ""


def examined(home: Home, in_force: InForce, settings: Settings = DEFAULTS) -> list[Finding]:
    """Look at a home."""
    return [
        *_program(),
        *_folder(home),
        *_keys(home),
        *_configuration(home, in_force),
        *_origin(in_force),
        *_decisions(home),
        *_agents(home),
        *_vectors(settings),
        *_databases(home),
        *_disk(home),
    ]


def _program() -> Iterator[Finding]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("ok", "program", f"Python {python}, SQLite {apsw.sqlite_lib_version()}")


def _folder(home: Home) -> Iterator[Finding]:
    exposed = [
        path.relative_to(home.path)
        for path in sorted(home.path.rglob("*"))
        if path.is_file() and path.stat().st_mode & OPEN_TO_OTHERS
    ]
    if exposed:
        names = ", ".join(str(name) for name in exposed[:5])
        detail = f"others can read {names}"
        yield Finding("warning", "home", detail, f"chmod -R go= {home.path}")
    else:
        yield Finding("ok", "home", f"{home.path}, closed to others")


def _keys(home: Home) -> Iterator[Finding]:
    try:
        key = home.signing_key()
        home.content_key()
    except PointsmanError as error:
        yield Finding("fault", "keys", str(error), error.hint)
        return
    yield Finding("ok", "keys", f"ledger {home.identity.ledger}, signs as {key.id}")


def _configuration(home: Home, in_force: InForce) -> Iterator[Finding]:
    for problem in in_force.problems:
        hint = "mend it; until then the last good version, or the default, is in force"
        yield Finding("fault", "configuration", str(problem), hint)
    if not in_force.problems:
        policy = in_force.ready.policy
        defaults = in_force.ready.defaults
        detail = f"models: {len(policy.models)}, default {', '.join(defaults)}"
        yield Finding("ok", "configuration", detail)
        for default in defaults:
            provider = in_force.models.providers.get(provider_of(default))
            needs = [] if provider is None else missing_secrets(provider, home.path)
            if needs:
                yield Finding("warning", "default", f"{default} lacks {', '.join(needs)}", "set it")


def _origin(in_force: InForce) -> Iterator[Finding]:
    """Say where the policy in force comes from, and its ids."""
    origin, ids = in_force.origin, f"{in_force.policy_id}, {in_force.placement_id}"
    if origin.source == "ledger":
        detail = f"publication {origin.number} by {origin.by}: {ids}"
        yield Finding("ok", "policy", detail)
    elif origin.notice:
        yield Finding("warning", "policy", origin.notice, "publish them: `pointsman rules publish`")
    else:
        yield Finding("ok", "policy", f"from the files: {ids}")


def _decisions(home: Home) -> Iterator[Finding]:
    decisions = DecisionFiles(home.path, is_kept=False).current()
    sensors = SensorFiles(home.path, is_kept=False).current()
    problems = (*decisions.problems, *sensors.problems)
    for problem in problems:
        hint = "mend it; a file that cannot be read decides nothing"
        yield Finding("fault", "decisions", str(problem), hint)
    if decisions.decisions and not problems:
        yield Finding("ok", "decisions", f"decisions: {len(decisions.decisions)}")


def _agents(home: Home) -> Iterator[Finding]:
    """Look at `agents.yaml`: what is wrong with it, and who could not be called."""
    found = AgentsFiles(home.path, kinds=LET_THROUGH, is_kept=False).current()
    for problem in found.problems:
        hint = "mend it; until then the last good version, or none, is in force"
        yield Finding("fault", "agents", str(problem), hint)
    agents = [each.node_id for each in found.selfrep.modules if each.type == "agent"]
    if not agents or found.problems:
        return
    mute = [name for name in agents if name not in found.run]
    if mute:
        names = ", ".join(mute[:5])
        hint = "say under `run` in agents.yaml how; jobs pass them over until then"
        yield Finding("warning", "agents", f"nothing says how to call {names}", hint)
    if len(mute) < len(agents):
        yield Finding("ok", "agents", f"agents: {len(agents)}")


def _vectors(settings: Settings) -> Iterator[Finding]:
    """Look whether the vectors that learned routing is told to use can be made."""
    if settings.patterns.vectors != "minilm":
        return
    try:
        minilm.verified()
    except WeightsError as error:
        yield Finding("fault", "vectors", error.message, error.hint)
        return
    yield Finding("ok", "vectors", f"minilm, {minilm.located()}")


def _databases(home: Home) -> Iterator[Finding]:
    """Look at what is recorded; where the database cannot be reached, that alone is to be told."""
    try:
        for detail, hint in home.store.examined():
            yield Finding("warning" if hint else "ok", "store", detail, hint)
        yield from _redis(home)
        yield from _ledger(home)
        yield from _stores(home)
    except LedgerUnavailable as error:
        yield Finding("fault", "store", str(error), error.hint)


def _redis(home: Home) -> Iterator[Finding]:
    """Look at what replicas share beside the database; a home of files has none of it."""
    if shared_store(home.store) is None:
        return
    # Imported here: the drivers are extras.
    from pointsman.operations.server_state import examined_redis  # noqa: PLC0415 - see above

    for detail, hint in examined_redis(home):
        yield Finding("warning" if hint else "ok", "redis", detail, hint)


def _ledger(home: Home) -> Iterator[Finding]:
    report = verify_ledger(home)
    if report.is_intact:
        yield Finding("ok", "ledger", f"entries: {report.entries}, chains: {len(report.chains)}")
    elif report.fault is not None:
        fault = report.fault
        detail = f"{fault.chain}/{fault.seq}: {fault.code}: {fault.message}"
        yield Finding("fault", "ledger", detail, "keep a copy of the home, then `pointsman verify`")


def _stores(home: Home) -> Iterator[Finding]:
    for path in (home.content, home.patterns):
        if path.exists():
            damage = database_damage(path)
            if damage:
                hint = f"move {path.name} away; the ledger does not need it"
                yield Finding("fault", path.name, damage, hint)
            else:
                yield Finding("ok", path.name, "intact")


def _disk(home: Home) -> Iterator[Finding]:
    free = shutil.disk_usage(home.path).free
    sync_ms = _sync_ms(home)
    detail = f"{free // 2**20} MiB free, a sync takes {sync_ms:.1f} ms"
    if free < LITTLE_SPACE:
        yield Finding("warning", "disk", detail, "make room: a full disk stops the ledger")
    elif sync_ms > SLOW_SYNC_MS:
        yield Finding(
            "warning", "disk", detail, "every decision waits for a sync; use a faster disk"
        )
    else:
        yield Finding("ok", "disk", detail)


def _sync_ms(home: Home) -> float:
    """Give the middle one of five syncs of a small file in the home."""
    times = []
    with tempfile.TemporaryFile(dir=home.path) as file:
        for _ in range(5):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[2]
