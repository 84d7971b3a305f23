"""The checks of `pointsman doctor`: all that can be done without changing anything."""

from __future__ import annotations

import os
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Literal

import apsw
from msgspec import Struct

from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.audit.witness_entries import lost_witnesses
from pointsman.audit.witnessed import terms_of
from pointsman.calls.services import pool_of
from pointsman.errors import LedgerUnavailable, PointsmanError, WeightsError
from pointsman.providers.embedded.weights import find_weights, verify_weights
from pointsman.providers.http.proxy import Proxy, read_proxy
from pointsman.signals.kinds import LET_THROUGH
from pointsman.storage.home import OPEN_TO_OTHERS, Home
from pointsman.storage.policies.agents_file import AgentsFiles
from pointsman.storage.policies.decision_files import DecisionFiles
from pointsman.storage.policies.policies import InForce
from pointsman.storage.policies.secrets import missing_secrets
from pointsman.storage.policies.sensor_files import SensorFiles
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.policies.witness_settings import NO_WITNESSES, WitnessSettings
from pointsman.storage.store_url import SETTINGS, shared_store
from pointsman.storage.stores.entries import database_damage
from pointsman.turns.registry.models import provider_of

LITTLE_SPACE = 100 * 1024 * 1024
SLOW_SYNC_MS = 50


class DoctorFinding(Struct, frozen=True):
    """One thing looked at, how it is, and what to do about it."""

    state: Literal["ok", "warning", "fault"]
    subject: str
    detail: str
    hint: str = ""


def examine_home(
    home: Home, in_force: InForce, witnesses: WitnessSettings = NO_WITNESSES
) -> list[DoctorFinding]:
    """Check a home."""
    return [
        *_program(),
        *_folder(home),
        *_keys(home),
        *_configuration(home, in_force),
        *_origin(in_force),
        *_decisions(home),
        *_agents(home),
        *_databases(home, witnesses),
        *_network(home),
        *_disk(home),
        *_weights(),
    ]


def _program() -> Iterator[DoctorFinding]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield DoctorFinding("ok", "program", f"Python {python}, SQLite {apsw.sqlite_lib_version()}")


def _folder(home: Home) -> Iterator[DoctorFinding]:
    exposed = [
        path.relative_to(home.path)
        for path in sorted(home.path.rglob("*"))
        if path.is_file() and path.stat().st_mode & OPEN_TO_OTHERS
    ]
    if exposed:
        names = ", ".join(str(name) for name in exposed[:5])
        detail = f"others can read {names}"
        yield DoctorFinding("warning", "home", detail, f"chmod -R go= {home.path}")
    else:
        yield DoctorFinding("ok", "home", f"{home.path}, closed to others")


def _keys(home: Home) -> Iterator[DoctorFinding]:
    try:
        key = home.signing_key()
        home.content_key()
    except PointsmanError as error:
        yield DoctorFinding("fault", "keys", str(error), error.hint)
        return
    yield DoctorFinding("ok", "keys", f"ledger {home.identity.ledger}, signs as {key.id}")


def _configuration(home: Home, in_force: InForce) -> Iterator[DoctorFinding]:
    for problem in in_force.problems:
        hint = "mend it; until then the last good version, or the default, is in force"
        yield DoctorFinding("fault", "configuration", str(problem), hint)
    if not in_force.problems:
        policy = in_force.ready.policy
        defaults = in_force.ready.defaults
        detail = f"models: {len(policy.models)}, default {', '.join(defaults)}"
        yield DoctorFinding("ok", "configuration", detail)
        for default in defaults:
            provider = in_force.models.providers.get(provider_of(default))
            needs = [] if provider is None else missing_secrets(provider, home.path)
            if needs:
                yield DoctorFinding(
                    "warning", "default", f"{default} lacks {', '.join(needs)}", "set it"
                )


def _origin(in_force: InForce) -> Iterator[DoctorFinding]:
    """Say where the policy in force comes from, and its ids."""
    origin, ids = in_force.origin, f"{in_force.policy_id}, {in_force.placement_id}"
    if origin.source == "ledger":
        detail = f"publication {origin.number} by {origin.by}: {ids}"
        yield DoctorFinding("ok", "policy", detail)
    elif origin.notice:
        yield DoctorFinding(
            "warning", "policy", origin.notice, "publish them: `pointsman rules publish`"
        )
    else:
        yield DoctorFinding("ok", "policy", f"from the files: {ids}")


def _decisions(home: Home) -> Iterator[DoctorFinding]:
    decisions = DecisionFiles(home.path, is_kept=False).current()
    sensors = SensorFiles(home.path, is_kept=False).current()
    problems = (*decisions.problems, *sensors.problems)
    for problem in problems:
        hint = "mend it; a file that cannot be read decides nothing"
        yield DoctorFinding("fault", "decisions", str(problem), hint)
    if decisions.decisions and not problems:
        yield DoctorFinding("ok", "decisions", f"decisions: {len(decisions.decisions)}")


def _agents(home: Home) -> Iterator[DoctorFinding]:
    """Check `agents.yaml`: its problems, and the agents that cannot be called."""
    found = AgentsFiles(home.path, kinds=LET_THROUGH, is_kept=False).current()
    for problem in found.problems:
        hint = "mend it; until then the last good version, or none, is in force"
        yield DoctorFinding("fault", "agents", str(problem), hint)
    agents = [each.node_id for each in found.selfrep.modules if each.type == "agent"]
    if not agents or found.problems:
        return
    mute = [name for name in agents if name not in found.run]
    if mute:
        names = ", ".join(mute[:5])
        hint = "say under `run` in agents.yaml how; jobs pass them over until then"
        yield DoctorFinding("warning", "agents", f"nothing says how to call {names}", hint)
    if len(mute) < len(agents):
        yield DoctorFinding("ok", "agents", f"agents: {len(agents)}")


def _databases(home: Home, witnesses: WitnessSettings) -> Iterator[DoctorFinding]:
    """Check the databases; where they cannot be reached, report that alone."""
    try:
        for detail, hint in home.store.examine():
            yield DoctorFinding("warning" if hint else "ok", "store", detail, hint)
        yield from _redis(home)
        yield from _ledger(home, witnesses)
        yield from _stores(home)
    except LedgerUnavailable as error:
        yield DoctorFinding("fault", "store", str(error), error.hint)


def _redis(home: Home) -> Iterator[DoctorFinding]:
    """Check the Redis that replicas share beside the database; a home of files has none."""
    if shared_store(home.store) is None:
        return
    # Imported here: the drivers are extras.
    from pointsman.operations.store.server import check_redis  # noqa: PLC0415 - see above

    for detail, hint in check_redis(home):
        yield DoctorFinding("warning" if hint else "ok", "redis", detail, hint)


def _ledger(home: Home, witnesses: WitnessSettings) -> Iterator[DoctorFinding]:
    report = verify_ledger(home, terms=terms_of(witnesses))
    if report.is_intact:
        yield DoctorFinding(
            "ok", "ledger", f"entries: {report.entries}, chains: {len(report.chains)}"
        )
    elif report.fault is not None:
        fault = report.fault
        detail = f"{fault.chain}/{fault.seq}: {fault.code}: {fault.message}"
        yield DoctorFinding(
            "fault", "ledger", detail, "keep a copy of the home, then `pointsman verify`"
        )
    if home.database.exists():
        yield from _witnesses(home, report, witnesses)


def _witnesses(
    home: Home, report: LedgerReport, witnesses: WitnessSettings
) -> Iterator[DoctorFinding]:
    """Say how far witnesses have cosigned the ledger, and which of them are lost."""
    if not witnesses.is_used:
        return
    proven = {
        each.chain: max((r.end for r in each.ranges if r.against == "operator_with_key"), default=0)
        for each in report.proofs
    }
    detail = f"{sum(proven.values())} of {report.entries} entries cosigned"
    hint = "a gateway does it; without one: `pointsman witness submit`"
    if witnesses.of:
        is_none = report.entries > 0 and not any(proven.values())
        yield DoctorFinding(
            "warning" if is_none else "ok", "witnesses", detail, hint if is_none else ""
        )
    with closing(home.reader()) as reader:
        for name, trouble in lost_witnesses(reader).items():
            detail = f"{name}: {trouble.code}: {trouble.message}"
            yield DoctorFinding("warning", "witness", detail, "ask its operator")


def _stores(home: Home) -> Iterator[DoctorFinding]:
    for path in (home.content, home.patterns):
        if path.exists():
            damage = database_damage(path)
            if damage:
                hint = f"move {path.name} away; the ledger does not need it"
                yield DoctorFinding("fault", path.name, damage, hint)
            else:
                yield DoctorFinding("ok", path.name, "intact")


def _network(home: Home) -> Iterator[DoctorFinding]:
    """Say through which proxy and by which authorities providers are reached."""
    path = home.path / SETTINGS
    try:
        settings = read_settings(path.read_bytes() if path.exists() else b"", SETTINGS)
        pool = pool_of(settings, home.path)
        named = {each for each in (pool.proxies.https, pool.proxies.http) if each is not None}
        shown = [f"{name}: {proxy.host}:{proxy.port}" for name, proxy in _proxies(sorted(named))]
    except PointsmanError as error:
        yield DoctorFinding("fault", "network", error.message, error.hint)
        return
    without = ", ".join(pool.proxies.without) if shown else ""
    usual = ssl.get_default_verify_paths()
    trusted = [str(each) for each in (usual.cafile or usual.capath, pool.ca_file) if each]
    told = f"proxy {', '.join(shown) or 'none'}"
    told += f", not for {without}" if without else ""
    detail = f"{told}; authorities {' and '.join(trusted)}"
    if pool.ca_file is not None and not pool.ca_file.is_file():
        yield DoctorFinding("fault", "network", detail, "`upstream.ca_file` is missing")
    else:
        yield DoctorFinding("ok", "network", detail)


def _proxies(named: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Proxy]]:
    return ((name, read_proxy(name, url)) for name, url in named)


def _disk(home: Home) -> Iterator[DoctorFinding]:
    free = shutil.disk_usage(home.path).free
    try:
        sync_ms = _sync_ms(home)
    except OSError as error:
        hint = "nothing can be recorded here; reading and `pointsman verify` work"
        yield DoctorFinding("warning", "disk", f"it takes no writes: {error.strerror}", hint)
        return
    detail = f"{free // 2**20} MiB free, a sync takes {sync_ms:.1f} ms"
    if free < LITTLE_SPACE:
        yield DoctorFinding("warning", "disk", detail, "make room: a full disk stops the ledger")
    elif sync_ms > SLOW_SYNC_MS:
        yield DoctorFinding(
            "warning", "disk", detail, "every decision waits for a sync; use a faster disk"
        )
    else:
        yield DoctorFinding("ok", "disk", detail)


def _weights() -> Iterator[DoctorFinding]:
    """Check that the local model is there: it is the last resort of every home."""
    try:
        weights = verify_weights(find_weights())
    except WeightsError as error:
        yield DoctorFinding("fault", "local model", error.message, error.hint)
        return
    yield DoctorFinding("ok", "local model", f"its weights are the {weights.source} ones")


def _sync_ms(home: Home) -> float:
    """Return the median of five syncs of a small file in the home."""
    times = []
    with tempfile.TemporaryFile(dir=home.path) as file:
        for _ in range(5):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[2]
