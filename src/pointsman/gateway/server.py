"""Opening a gateway and serving it: one process, one event loop, one chain of the ledger."""

from __future__ import annotations

import gc
import os
import resource
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pointsman.access.book import HomeBook
from pointsman.access.budgets import BudgetPort
from pointsman.access.home_budgets import HomeBudgets
from pointsman.access.keyring import ACCESS, Keyring, opened_admin_token
from pointsman.access.keys import ENTROPY_BYTES
from pointsman.app import Pointsman
from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.calls.services import CallServices, deadlines_of, pool_of
from pointsman.gateway.api.feed.events import EventOwners, event_of
from pointsman.gateway.api.policies.writing import follow_policy
from pointsman.gateway.company import (
    counts_of,
    follow_neighbours,
    logins_of,
    opened_neighbours,
    turn_locks,
)
from pointsman.gateway.dispatch import LOOPBACK, Gateway
from pointsman.gateway.route_table import ROUTES, RouteTable
from pointsman.gateway.routes import make_handlers
from pointsman.gateway.serving.chain_follower import CatalogUpkeep
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.services import GatewayServices, fallback_of, stored_lock
from pointsman.gateway.supervisor import Seat
from pointsman.gateway.telemetry.call_telemetry import CallTelemetry
from pointsman.gateway.telemetry.logs import Log, write_whole_lines
from pointsman.gateway.telemetry.metrics import GatewayMetrics
from pointsman.gateway.telemetry.tracing import open_tracing
from pointsman.gateway.wire.server import BACKLOG, Lifeline, Serving
from pointsman.kernel.entry import Entry
from pointsman.providers.embedded.provider import EmbeddedProvider
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.registry.providers import LiveProviders
from pointsman.recording.health import transition_draft
from pointsman.recording.key_limits import HomeLimits, KeyLimiter, LimitStore, MemoryLimits
from pointsman.signals.tokens import count_tokens
from pointsman.storage.home import Home, open_home
from pointsman.storage.policies.secrets import ADMIN_TOKEN
from pointsman.storage.policies.settings import MOST_WORKERS, Server, Settings
from pointsman.storage.store_url import shared_store
from pointsman.storage.stores.sessions import SessionStore
from pointsman.turns.registry.availability import Transition

if TYPE_CHECKING:
    from pointsman.gateway.serving.sharing import Sharing
    from pointsman.storage.postgres.place import PostgresStore

WRITER = "serve"
GC_THRESHOLDS = (20_000, 20, 20)


@contextmanager
def open_gateway(
    home: Path,
    *,
    store: str = "",
    server: Server | None = None,
    surroundings: ProviderEnvironment = ProviderEnvironment(),  # noqa: B008 - it is frozen
    seat: Seat | None = None,
) -> Iterator[tuple[GatewayServices, Gateway]]:
    """Open a home and everything a gateway needs; `seat` is a worker's among several."""
    with ExitStack() as stack:
        pointsman = stack.enter_context(Pointsman(home, store=store, writer=WRITER))
        pointsman.gathering.learns_in_background = True
        settings = pointsman.files.settings().value
        if server is not None:
            settings = replace(settings, server=server)
        # The ledger is opened and verified before the first request, not by it.
        recorder = pointsman.decision_recorder.recorder()
        sessions = SessionStore(pointsman.home.sessions)
        stack.callback(sessions.close)
        access = pointsman.home.place(ACCESS)
        token = opened_admin_token(
            access, os.environ.get(ADMIN_TOKEN, ""), secrets.token_bytes(ENTROPY_BYTES)
        )
        keyring = Keyring(access, token.digest, settings.tenants)
        stack.callback(keyring.close)
        kept_in = shared_store(pointsman.home.store)
        sharing = None
        if kept_in is not None:
            sharing = _open_sharing(stack, pointsman, kept_in, settings, keyring)
            pointsman.health = sharing.health
        limits: LimitStore = MemoryLimits()
        if sharing is None:
            book = _open_book(stack, pointsman, pointsman.home)
            budgets: BudgetPort = HomeBudgets(book, pointsman.ids)
            limits = HomeLimits(book)
        else:
            budgets = sharing.budgets
            if seat is not None:
                # The limits of keys hold for each machine: its workers count them in its folder.
                limits = HomeLimits(_open_book(stack, pointsman, Home(home)))
        pointsman.health.prepare()
        is_joining = sharing is None or seat is not None
        neighbours = opened_neighbours(stack, pointsman, seat) if is_joining else None
        pointsman.stops.follow()
        metrics, tracing, deadlines = GatewayMetrics(), open_tracing(), deadlines_of(settings)
        calls = CallServices(
            decision_recorder=pointsman.decision_recorder,
            clock=pointsman.clock,
            ids=pointsman.ids,
            price_table_id=pointsman.files.prices.id,
            providers=LiveProviders(
                home,
                pointsman.in_force().models,
                EmbeddedProvider(),
                surroundings,
                pool_of(settings, home),
            ),
            health=pointsman.health,
            budgets=budgets,
            deadlines=lambda: deadlines,
            listener=CallTelemetry(metrics, tracing),
            stops=pointsman.stops,
            run_blocking=None if sharing is None else sharing.run,
        )
        pointsman.calls = calls
        catalog = TurnCatalog(pointsman.home)
        stack.callback(catalog.close)
        parts = GatewayServices(
            pointsman=pointsman,
            settings=settings,
            routes=ROUTES,
            catalog=catalog,
            providers=calls.providers,
            health=calls.health,
            locks=turn_locks(pointsman, neighbours, lambda name: stored_lock(sessions, name)),
            sessions=sessions,
            metrics=metrics,
            keyring=keyring,
            budgets=calls.budgets,
            calls=calls,
            feed=Feed(event_of, owner=_event_owners(keyring, pointsman)),
            log=_open_log(pointsman, settings, seat),
            tracing=tracing,
            new_admin_token=token.shown_once,
            limiter=KeyLimiter(limits, settings.tenants, pointsman.ids),
            sharing=sharing,
            neighbours=neighbours,
            seat=seat,
            logins=logins_of(neighbours, seat),
            counts=counts_of(pointsman, neighbours, metrics, seat),
            fallback=fallback_of(settings),
            deadlines=deadlines,
        )
        stack.callback(_let_go, parts)
        recorder.listen(partial(_report_commit, parts))
        parts.health.listener = lambda changes: _record_changes(parts, changes)
        parts.health.rates.follow(pointsman.in_force().models)
        parts.providers.listener = parts.health.rates.follow
        follow_policy(parts)
        _start_upkeep(stack, parts)
        if sharing is not None:
            sharing.begin(parts.feed, parts.log)
        if neighbours is not None:
            follow_neighbours(parts, neighbours)
        yield parts, application(parts)


def _start_upkeep(stack: ExitStack, parts: GatewayServices) -> None:
    _keep_up_catalog(parts)
    _start_witnessing(stack, parts)


def _keep_up_catalog(parts: GatewayServices) -> None:
    upkeep = CatalogUpkeep(parts.catalog, parts.metrics)
    parts.starting.append(upkeep.begin)
    parts.finishing.append(upkeep.end)


def _start_witnessing(stack: ExitStack, parts: GatewayServices) -> None:
    if not parts.settings.witnesses.is_used:
        return
    # Imported here: few homes have witnesses.
    from pointsman.witnessing.rounds import WitnessThread  # noqa: PLC0415 - see above

    pointsman, settings = parts.pointsman, parts.settings.witnesses
    thread = WitnessThread(pointsman.witnessing(), pointsman.home, settings.every_s)
    parts.witnessing.append(thread)
    stack.callback(thread.close)
    thread.start()


def _event_owners(keyring: Keyring, pointsman: Pointsman) -> EventOwners:
    return EventOwners(lambda name: keyring.session_tenant(name, pointsman.clock.now()))


def _open_book(stack: ExitStack, pointsman: Pointsman, home: Home) -> HomeBook:
    book = HomeBook(home, pointsman.decision_recorder.recorder().chain)
    stack.callback(book.close)
    return book


def _open_log(pointsman: Pointsman, settings: Settings, seat: Seat | None) -> Log:
    is_on = settings.telemetry.logs == "json"
    if seat is None:
        return Log(pointsman.clock, is_on=is_on)
    return Log(pointsman.clock, is_on=is_on, write=write_whole_lines)


def _open_sharing(
    stack: ExitStack,
    pointsman: Pointsman,
    store: PostgresStore,
    settings: Settings,
    keyring: Keyring,
) -> Sharing:
    # Imported here: it needs packages that a home of files does without.
    from pointsman.gateway.serving.sharing import opened_sharing  # noqa: PLC0415 - see above

    sharing = opened_sharing(pointsman, store, settings, keyring)
    stack.callback(sharing.end)
    return sharing


def _report_commit(parts: GatewayServices, entries: Sequence[Entry], seconds: float) -> None:
    """Count and publish durable entries; from the ledger's thread."""
    parts.metrics.commit.observe(seconds)
    parts.feed.publish(entries)
    if parts.sharing is not None:
        parts.sharing.replica.enqueue_outcomes(entries)


def _record_changes(parts: GatewayServices, changes: Sequence[Transition]) -> None:
    """Record the models that went out or came back."""
    recorder = parts.pointsman.decision_recorder.recorder()
    for each in changes:
        recorder.append(transition_draft(parts.pointsman.ids.new_id(), each))


def _let_go(parts: GatewayServices) -> None:
    for end in parts.ending:
        end()
    parts.log.flush()
    if parts.tracing is not None:
        parts.tracing.close()


def application(parts: GatewayServices) -> Gateway:
    """Put the application together."""
    server = parts.settings.server
    hosts = {each.lower() for each in server.hosts} | {server.host.lower()}
    if server.host in LOOPBACK:
        hosts |= LOOPBACK
    return Gateway(parts, RouteTable(make_handlers(parts)), frozenset(hosts))


def bind_socket(server: Server) -> socket.socket:
    """Bind the address, so that no client is told to connect before it can."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    bound_to = socket.socket(family, socket.SOCK_STREAM)
    bound_to.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound_to.bind((server.host, server.port))
    # A client that is told the address may connect at once; it waits in line until we serve.
    bound_to.listen(BACKLOG)
    bound_to.setblocking(False)  # noqa: FBT003 - the socket's own signature
    return bound_to


def usual_workers(home: Path, store: str = "") -> int:
    """Return how many workers serve a home: a single user's computer has other things to do.

    That is one worker where no key exists and the home is a folder of files, else one for each two
    cores that this process may use.
    """
    opened = open_home(home, store=store)
    with closing(Keyring(opened.place(ACCESS))) as keyring:
        is_single = shared_store(opened.store) is None and not keyring.list_keys()
    return 1 if is_single else max(1, min(MOST_WORKERS, usable_cores() // 2))


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use, by its affinity and its container's quota."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        most_us, every_us = map(int, quota.read_text().split())  # `max` means no quota
        cores = min(cores, most_us // every_us)
    return max(1, cores)


def begun_admin_token(home: Path, store: str = "") -> str:
    """Return the admin token if it is made now; the workers to come find it made."""
    place = open_home(home, store=store).place(ACCESS)
    entropy = secrets.token_bytes(ENTROPY_BYTES)
    return opened_admin_token(place, os.environ.get(ADMIN_TOKEN, ""), entropy).shown_once


def greeting(home: Path, address: str, admin_token: str) -> str:
    """Say where the gateway is, how to try it, and the admin token of its first start."""
    body = '{"model": "auto", "messages": [{"role": "user", "content": "hello"}]}'
    lines = [
        f"listening on {address}   (home {home})",
        "",
        f"  curl {address}/v1/chat/completions -H 'content-type: application/json' \\",
        f"    -d '{body}'",
        f"  OPENAI_BASE_URL={address}/v1   ANTHROPIC_BASE_URL={address}",
        "",
        f"dashboard {address}/",
    ]
    if admin_token:
        lines += ["", f"admin token, shown this once: {admin_token}"]
    return "\n".join(lines)


def serve(
    parts: GatewayServices,
    gateway: Gateway,
    listening: socket.socket,
    lifeline: Lifeline | None = None,
) -> None:
    """Serve until told to stop; requests in flight get time to end."""
    # Loaded modules stay: neither the first request nor the collector should pay for them.
    count_tokens("")
    gc.collect()
    gc.freeze()
    # A request leaves hardly any cycle behind: looking for them every few requests finds nothing.
    gc.set_threshold(*GC_THRESHOLDS)
    _allow_files()
    Serving(gateway, parts.settings.server, lifeline).run(sockets=[listening])


def _allow_files() -> None:
    """Take all the open files the system grants: every caller is one, and every call another."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def serving(parts: GatewayServices, gateway: Gateway) -> Serving:
    """Return the server of a gateway."""
    return Serving(gateway, parts.settings.server)
