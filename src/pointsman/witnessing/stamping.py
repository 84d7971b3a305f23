"""Time stamps over checkpoints: asked for now and then, verified, and recorded with their token."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from cryptography.x509 import Certificate, load_pem_x509_certificates

from pointsman.audit.witness_entries import (
    BACK,
    LOST,
    STAMPED,
    STAMPED_FORM,
    TROUBLE_FORM,
    StampedEntry,
    WitnessTrouble,
)
from pointsman.errors import HomeError, InputError
from pointsman.kernel.checkpoint import Checkpoint, origin
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import LATEST, SECOND, Clock, IdSource, Instant
from pointsman.kernel.time_stamp import QUERY_MEDIA, read_time_stamp, token_of, write_query
from pointsman.storage.home import Home
from pointsman.storage.policies.witness_settings import TimeStamps, WitnessSettings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.witnessing.exchange import Unreachable, exchange

MOST_TOKEN: Final = 64 * 1024
MOST_RECALLED: Final = 256


def trusted_certificates(home: Path, settings: TimeStamps) -> Sequence[Certificate]:
    """Read the certificates of the authority; a relative path begins at the home."""
    path = home / Path(settings.certificate).expanduser()
    try:
        return load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise HomeError(
            f"the certificate of the time-stamp authority cannot be read: {error}",
            where=str(path),
            hint="name a PEM file in `witnesses: {time_stamps: {certificate: …}}`",
        ) from error


class Stamping:
    """Asks one authority for stamps; does nothing where none is configured."""

    def __init__(
        self,
        home: Home,
        settings: WitnessSettings,
        record: Callable[[Draft], object],
        sources: tuple[Clock, IdSource],
    ) -> None:
        self._home = home
        self._settings = settings
        self._record = record
        self._clock, self._ids = sources
        self._stamped: dict[str, tuple[Instant, int]] = {}
        self.failing_since = Instant(0)
        self._is_told = self._is_informed = False

    def stamp(self, chain: Chain, newest: Checkpoint) -> None:
        """Have a checkpoint stamped, where one is due and the chain grew."""
        settings = self._settings.time_stamps
        if settings is None:
            return
        if not self._is_informed:
            self._recall()
        now = self._clock.now()
        at, size = self._stamped.get(chain.name, (Instant(0), 0))
        # The entry of the last stamp alone is no reason for the next.
        if newest.size <= size + 1 or now - at < settings.every_s * SECOND:
            return
        try:
            self._ask(settings, chain, newest, now)
        except (Unreachable, InputError, HomeError) as error:
            self._fail(settings, now, str(error))
        else:
            self._recover(settings, now)

    def _recall(self) -> None:
        """Take up which stamps earlier processes recorded."""
        self._is_informed = True
        if not self._home.database.exists():
            return
        with closing(LedgerReader(self._home.database)) as reader:
            for stored in reader.recent(STAMPED, LATEST, MOST_RECALLED):
                name = stored.entry.ref.rpartition("/")[2]
                size = STAMPED_FORM.decode(stored.entry.payload).size
                self._stamped.setdefault(name, (stored.entry.at, size))

    def _ask(self, settings: TimeStamps, chain: Chain, newest: Checkpoint, now: Instant) -> None:
        nonce, data = secrets.randbits(64), newest.text.encode()
        query = write_query(data, nonce)
        timeout_s = self._settings.timeout_s
        status, answer = exchange(settings.url, query, QUERY_MEDIA, timeout_s, MOST_TOKEN)
        if status != 200:
            raise InputError(f"the authority answers {status}")
        token = token_of(answer)
        trusted = trusted_certificates(self._home.path, settings)
        found = read_time_stamp(token, data, trusted, nonce)
        payload = STAMPED_FORM.encode(StampedEntry(newest.size, found.at, found.authority))
        name = self._ids.new_id()
        self._record(Draft(STAMPED, name, origin(chain), now, payload, (data, token)))
        self._stamped[chain.name] = now, newest.size

    def _fail(self, settings: TimeStamps, now: Instant, message: str) -> None:
        self.failing_since = self.failing_since or now
        if not self._is_told and now - self.failing_since >= self._settings.gap_s * SECOND:
            self._is_told = True
            self._tell(LOST, settings, now, message)

    def _recover(self, settings: TimeStamps, now: Instant) -> None:
        if self._is_told:
            self._tell(BACK, settings, now, "")
        self.failing_since, self._is_told = Instant(0), False

    def _tell(self, kind: str, settings: TimeStamps, now: Instant, message: str) -> None:
        trouble = WitnessTrouble(settings.url, "unreachable", message[:300], self.failing_since)
        self._record(Draft(kind, self._ids.new_id(), "", now, TROUBLE_FORM.encode(trouble)))
