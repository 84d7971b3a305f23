"""The policy of a home that follows the publications in its ledger."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pointsman.errors import DocumentError, HomeError, LedgerError, Place, Problem
from pointsman.kernel.codes import Code
from pointsman.placement import policy as placement
from pointsman.placement.compiled import compile_policy as compile_placement
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import (
    InForce,
    InvalidFile,
    Origin,
    PolicyFiles,
    invalid_settings,
)
from pointsman.storage.policies.policy_file import Loaded
from pointsman.storage.policies.publications import (
    PUBLISHED,
    PUBLISHED_FILES,
    Candidate,
    Published,
    RefusedPublication,
    Succession,
    candidate,
    succession,
)
from pointsman.storage.policies.settings import Settings
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.store_url import SETTINGS, settings_value
from pointsman.storage.stores.entries import LedgerReader
from pointsman.turns.compiled import compile_policy as compile_turns
from pointsman.turns.policy import POLICY_FORM

LOOK_S: Final = 0.5
NOTHING_YET: Final = "nothing is published yet: the files of this machine are in force"


class LedgerPolicies(PolicyFiles):
    """Keeps the newest publication in force; until there is one, the files.

    Each call looks for a newer one when the last look is long enough ago, unless the caller follows
    the ledger anyway and says so by `is_followed`.
    """

    def __init__(self, home: Home, kinds: Sequence[str] = ()) -> None:
        super().__init__(home, kinds)
        self._home = home
        self.is_followed = False
        self.trouble = ""
        """Why the ledger could not be looked at the last time."""
        self.listener: Callable[[InForce], None] | None = None
        """Is told when another policy is in force, or one was refused; in whose thread looks."""
        self._looking = threading.RLock()
        self._reader: LedgerReader | None = None
        self._looked_at: float | None = None
        self._count = -1
        self._succession = Succession()
        self._held: InForce | None = None
        self._shown: (
            tuple[InForce, Loaded[Settings], tuple[RefusedPublication, ...], InForce] | None
        ) = None

    def in_force(self) -> InForce:
        """Return the policy in force: the one published last, as far as this process has looked."""
        if not self.is_followed and self._is_due():
            self.look()
        return self._now()

    def reload(self) -> InForce:
        """Read the files and the ledger anew."""
        with self._looking:
            super().reload()
            self._count = -1
            self.look()
        return self.in_force()

    def text(self, name: str) -> bytes | None:
        """Return the text of a policy file in force; None where there is none."""
        found = self.newest_publication
        if found is None or name not in PUBLISHED_FILES:
            return super().text(name)
        text = found.publication.files.get(name)
        return None if text is None else text.encode()

    @property
    def newest_publication(self) -> Published | None:
        """The publication in force."""
        return self._succession.newest

    def on_disk(self) -> InForce:
        """Return what the files of this machine would put in force."""
        return super().in_force()

    def candidate(self) -> Candidate:
        """Compile the files of this machine, to be published in place of the policy in force."""
        self.look()
        return self._compile(self._texts(None), self._succession.over)

    def compile_with(self, name: str, text: bytes) -> Candidate:
        """Compile the policy in force with another text for one of its files."""
        self.look()
        # One look at it: two publications must not be mixed.
        told = self._succession
        return self._compile({**self._texts(told.newest), name: text}, told.over)

    def _texts(self, found: Published | None) -> dict[str, bytes]:
        if found is not None:
            return {name: text.encode() for name, text in found.publication.files.items()}
        texts = {name: super(LedgerPolicies, self).text(name) for name in PUBLISHED_FILES}
        return {name: text for name, text in texts.items() if text is not None}

    def _compile(self, texts: dict[str, bytes], over: str) -> Candidate:
        known, tables = self.known_models, self.routing_tables()
        return candidate(texts, over, known, self._kinds, self._user_home, tables)

    def look(self) -> bool:
        """Look for publications since the last look; return whether anything changed.

        Once something is known, a ledger that cannot be read changes nothing.
        """
        with self._looking:
            is_first, self._looked_at = self._looked_at is None, time.monotonic()
            try:
                with told_errors(self._home.database):
                    is_new = self._look_again()
            except LedgerError as error:
                self._let_go()
                self.trouble = error.message
                if is_first:
                    self._looked_at = None
                    raise
                return False
            self.trouble = ""
        if is_new and self.listener is not None:
            self.listener(self._now())
        return is_new

    def close(self) -> None:
        """Let go of the ledger."""
        with self._looking:
            self._let_go()

    def _look_again(self) -> bool:
        if self._reader is None:
            if not self._home.database.exists():
                return False
            self._reader = LedgerReader(self._home.database)
        count = self._reader.count(PUBLISHED)
        if count == self._count:
            return False
        found = succession(self._reader, self._home)
        before, known = self._succession, self.newest_publication
        newest = found.newest
        if known is not None and (
            newest is None or newest.publication.number < known.publication.number
        ):
            # INVARIANT: a process never goes back to an earlier publication.
            newest = known
        self._count = count
        self._put_in_force(Succession(newest, found.refused, found.numbers, over=found.head))
        return self._succession != before

    def _put_in_force(self, published: Succession) -> None:
        """Hold the newest publication, compiled before anything may ask for it."""
        newest = published.newest
        if newest is not None and (self._held is None or newest.id != self._succession.head):
            self._held = _ready(newest)
        self._succession = published

    def _now(self) -> InForce:
        with self._lock:
            return self._put_together()

    def _put_together(self) -> InForce:
        """Return the policy in force with its problems; the same value while nothing changes."""
        settings = self._settings.current()
        base, refused = self._held or self.on_disk(), self._succession.refused
        last = self._shown
        if last is not None and last[0] is base and last[1] is settings and last[2] is refused:
            return last[3]
        invalid = base.invalid if self._held is None else invalid_settings(settings)
        invalid += tuple(_invalid(each, self._home) for each in refused)
        found = InForce(
            base.ready, base.policy_id, base.models, base.placement, base.placement_id, invalid,
            origin=base.origin if self._held else Origin("files", notice=NOTHING_YET),
        )  # fmt: skip
        self._shown = (base, settings, refused, found)
        return found

    def _is_due(self) -> bool:
        at = self._looked_at
        return at is None or time.monotonic() - at >= LOOK_S

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def opened_policies(home: Home, kinds: Sequence[str] = ()) -> PolicyFiles:
    """Open the policy of a home from where its settings say that it comes."""
    return (LedgerPolicies if _is_from_ledger(home.path) else PolicyFiles)(home, kinds)


def _is_from_ledger(home: Path) -> bool:
    """Tell what the settings say, also where the rest of them is broken."""
    path = home / SETTINGS
    text = path.read_bytes() if path.exists() else b""
    if b"ledger" not in text:
        return False
    try:
        value = settings_value(text, "policy")
    except DocumentError as error:
        # INVARIANT: never another policy than the one that was meant, for a slip in a file.
        raise HomeError(
            f"it cannot be read, and may say where the policy comes from: {error}",
            where=str(path),
            hint="mend it",
        ) from error
    policy = value.get("policy") if isinstance(value, dict) else None
    return isinstance(policy, dict) and policy.get("source") == "ledger"


def _ready(found: Published) -> InForce:
    said = found.publication
    return InForce(
        compile_turns(found.turns),
        POLICY_FORM.id(found.turns),
        found.models,
        compile_placement(found.placement),
        placement.POLICY_FORM.id(found.placement),
        (),
        origin=Origin("ledger", said.number, found.id, said.by, said.at),
    )


def _invalid(refused: RefusedPublication, home: Home) -> InvalidFile:
    hint = "the policy in force stays; find out who wrote it, and publish anew"
    problem = Problem(
        Place(str(home.database), 1, 1), Code.PUBLICATION_REFUSED, refused.reason, hint
    )
    name = f"publication {refused.number}"
    return InvalidFile(name, (problem,), using_last_known_good=True, entry_id=refused.entry_id)
