"""Bringing what the method `evidence` knows up to date on a thread, while turns go on with the old.

Reading ten thousand looks and finding out a threshold take up to a second: no turn waits for that.
A decision names the calibration it used, so the moment at which a new one takes effect is recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import apsw

from pointsman.errors import PointsmanError

if TYPE_CHECKING:
    from pointsman.storage.connection import Connection
    from pointsman.storage.stores.patterns.calibration import Experience

PAUSE_S = 0.000_5
"""How long the thread waits between two looks: longer than another thread needs to go on."""


class Renewal:
    """One thread at a time that renews the experience which no turn uses just now."""

    def __init__(self, connect: Callable[[], Connection], begin: Callable[[], Experience]) -> None:
        self._connect = connect
        self._spare = begin()
        self._begin = begin
        self._thread: threading.Thread | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, used: Experience | None, put: Callable[[Experience], Experience | None]
    ) -> None:
        """Renew the spare experience and put it in place of the one used, which becomes the spare.

        Does nothing while a renewal is under way: the next turn that finds something new asks
        again.
        """
        if self.is_under_way:
            return
        wanted = set() if used is None else set(used.wanted)
        if used is not None and used.calibration is not None:
            wanted |= {(each.target, each.k) for each in used.calibration.thresholds}

        def renew() -> None:
            try:
                connection = self._connect()
                try:
                    self._spare.refresh(connection)
                    for target, k in sorted(wanted, key=repr):
                        self._spare.threshold(connection, target, k, _pause)
                finally:
                    connection.close()
            except (apsw.Error, OSError, PointsmanError):
                # The turns go on with the old experience; the next one asks again.
                self._spare = self._begin()
                return
            self._spare.wanted.clear()
            self._spare = put(self._spare) or self._begin()

        self._thread = threading.Thread(target=renew, name="patterns", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the renewal under way."""
        thread = self._thread
        if thread is not None:
            thread.join()


def _pause() -> None:
    time.sleep(PAUSE_S)
