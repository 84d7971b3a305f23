"""Putting a changed policy in force: in this home's files, or by publishing it for all."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from pointsman.access.keys import Principal
from pointsman.errors import LedgerError
from pointsman.gateway.api.feed.events import published_event
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.neighbours import POLICY
from pointsman.gateway.serving.services import GatewayServices, check_own_files
from pointsman.storage.files import replace_file
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.policies.policies import InForce
from pointsman.storage.policies.secrets import check_given_secrets
from pointsman.turns.registry.models import ModelsFile, read_models

_MODELS: Final = "models.yaml"


async def write_policy(
    parts: GatewayServices, name: str, text: bytes, caller: Principal, over: str = ""
) -> None:
    """Put a text that was checked in force.

    Where the policy is published, all must fit together, and it must take the place of the
    publication in force; `over` names the one that the caller has seen.
    """
    pointsman = parts.pointsman
    if not isinstance(pointsman.files, LedgerPolicies):
        check_own_files(parts)
        path = pointsman.home.path / name
        await in_thread(lambda: replace_file(path, text))
        pointsman.reload()
        return
    given = pointsman.files.compile_with(name, text)
    if over:
        given = replace(given, over=over)
    await in_thread(lambda: pointsman.publish(given, _author(caller)))
    parts.announce(POLICY)


def check_models(parts: GatewayServices, text: bytes) -> ModelsFile:
    """Read a `models.yaml` given over HTTP, or raise with all that is wrong with it.

    Who may set a policy is no owner of the machine: secrets are named by an allow-list.
    """
    given, pointsman = read_models(text, _MODELS), parts.pointsman
    allowed = pointsman.files.settings().value.secrets
    may = (allowed, pointsman.home.path)
    check_given_secrets(text, _MODELS, given, pointsman.files.in_force().models, may)
    return given


def follow_policy(parts: GatewayServices) -> None:
    """Have every change of a published policy told: in the log, live and, if refused, recorded."""
    files = parts.pointsman.files
    if isinstance(files, LedgerPolicies):
        files.listener = _PublicationListener(parts, files)


class _PublicationListener:
    """Reports the fate of publications; in the thread that looks for them."""

    def __init__(self, parts: GatewayServices, files: LedgerPolicies) -> None:
        self._parts = parts
        self._files = files
        self._last = files.newest_publication

    def __call__(self, in_force: InForce) -> None:
        parts = self._parts
        refused = [
            problem.message
            for file in in_force.invalid
            if file.entry_id
            for problem in file.problems
        ]
        if parts.log.is_on:
            parts.log.policy(in_force.policy_id, in_force.origin.number, refused)
        self._tell_live()
        # A ledger that takes nothing now is told elsewhere, and must not keep a policy from its
        # place.
        with suppress(LedgerError):
            parts.pointsman.decision_recorder.tell_invalid(in_force)

    def _tell_live(self) -> None:
        """Tell of a publication once, when it is in force here."""
        last, self._last = self._last, self._files.newest_publication
        if self._last is not None and (last is None or last.id != self._last.id):
            self._parts.feed.tell(published_event(self._last))


def _author(caller: Principal) -> str:
    return f"key {caller.key_id}" if caller.key_id else caller.name or "admin"
