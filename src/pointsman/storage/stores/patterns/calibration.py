"""The evidence index of a pattern store, kept in step with its tables, and its calibrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure
from pointsman.kernel.number import divide
from pointsman.storage.connection import Connection, Row
from pointsman.storage.stores.patterns.evidence import EvidenceIndex, EvidenceLook
from pointsman.storage.stores.patterns.look import SQL, Changed, halves, made_by
from pointsman.turns.learning.calibration import (
    CALIBRATION_FORM,
    MOST_TRIED,
    Calibration,
    Threshold,
    Tried,
    TriedLook,
    threshold,
)
from pointsman.turns.learning.evidence import Evidence, Outcomes, estimate
from pointsman.turns.learning.evidence_look import STATIC
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern import Target

LOADED_AT_ONCE = 1_024

Wanted = tuple[Target, int]

Pause = Callable[[], None]
"""Called between two steps of long work, so that others get their turn."""


def _go_on() -> None:
    """Make no pause."""


_BODY = msgspec.json.Decoder(Fingerprint)


class Experience:
    """What the method `evidence` knows: an index, and the calibration it is compared under.

    Token numbers are compared where they are of one `maker`, and calibrations kept under its mark.
    """

    def __init__(self, maker: bytes = STATIC) -> None:
        self._maker = maker
        self._begins = f"{maker.decode()}:" if maker else ""
        self.index = EvidenceIndex()
        self.calibration: Calibration | None = None
        self.wanted: set[Wanted] = set()
        """Thresholds that were asked for and are not found out yet."""
        self._id = ""

    def refresh(self, connection: Connection, changed: Changed | None = None) -> None:
        """Read what changed; where that is not known, everything."""
        if changed is None:
            self._read_all(connection)
        else:
            self._read_some(connection, changed)
        calibration = self.calibration
        if calibration is None or calibration.is_stale(len(self.index), self.index.judged_count()):
            self._begin(connection)

    def evidence(
        self,
        connection: Connection,
        look: tuple[Fingerprint, bytes],
        k: int,
        target: Target | None,
        *,
        may_calibrate: bool = True,
    ) -> Evidence:
        """Gather the evidence about a turn, with the threshold of a target where there is one.

        A threshold that would have to be found out first is noted as wanted where it may not be.
        """
        fingerprint, vector = look
        letters, tokens = halves(vector)
        asked = self.index.look(fingerprint, letters, made_by(self._maker, tokens))
        found = self.index.evidence(asked, k)
        if target is None:
            return found
        known = None if self.calibration is None else self.calibration.threshold(target, k)
        if known is None and may_calibrate:
            known = self.threshold(connection, target, k)
        if known is None:
            if self.index.can_be_tried:
                self.wanted.add((target, k))
            return found
        return replace(
            found,
            calibration_id=self._id,
            success_per_usd=known.success_per_usd,
            frontier=known.frontier or UNSET,
            optimism=known.optimism or UNSET,
        )

    def threshold(
        self, connection: Connection, target: Target, k: int, pause: Pause = _go_on
    ) -> Threshold | None:
        """Return the threshold of a target; found out when it is first asked for, then kept."""
        calibration = self.calibration
        if calibration is None:
            return None
        known = calibration.threshold(target, k)
        # Estimating every look takes half a second: not where that cannot lead to a threshold.
        if known is None and self.index.can_be_tried:
            known = threshold(self.try_all(k, pause), target, k)
            if known is not None:
                found = replace(calibration, thresholds=(*calibration.thresholds, known))
                self._keep(connection, found)
        return known

    def try_all(self, k: int = 0, pause: Pause = _go_on) -> Tried:
        """Estimate recorded looks as if they were new: those whose names come first."""
        tried: list[TriedLook] = []
        for place, found in self.left_out(k):
            tried.append(TriedLook([*map(estimate, found.models)], self._mean_successes(place)))
            pause()
        return tried

    def _mean_successes(self, place: int) -> dict[str, int]:
        return {
            model: divide(each.success, each.judged)
            for model, each in self.index.outcomes(place).items()
            if each.judged
        }

    def left_out(self, k: int = 0) -> Iterable[tuple[int, Evidence]]:
        """Return the evidence about looks from all others, with their places."""
        index = self.index
        ordered = sorted(range(len(index)), key=lambda place: index.ids[place])
        for place in ordered[:MOST_TRIED]:
            yield place, index.evidence(index.look_at(place), k, without=place)

    def fingerprints(self, connection: Connection) -> dict[str, Fingerprint]:
        """Return what every look is the look of, by name."""
        rows = connection.execute(SQL["all_looks"])
        return {str(row[0]): self._look(*row).fingerprint for row in rows}

    def _read_all(self, connection: Connection) -> None:
        index = self.index
        index.keep({name for (name,) in connection.execute(SQL["all_names"])})
        rows = connection.execute(SQL["all_looks"])
        for part in iter(lambda: [*islice(rows, LOADED_AT_ONCE)], []):
            index.add(self._look(*row) for row in part if self._is_news(row[0], row[3]))
        index.clear()
        index.replace(_outcome(row) for row in connection.execute(SQL["all_outcomes"]))
        self._read_calibration(connection)

    def _read_some(self, connection: Connection, changed: Changed) -> None:
        listed = (changed.names_json,)
        self.index.remove(changed.gone)
        rows = connection.execute(SQL["looks_of"], listed)
        self.index.add(self._look(*row) for row in rows if self._is_news(row[0], row[3]))
        self.index.replace(
            _outcome(row) for row in connection.execute(SQL["some_outcomes"], listed)
        )
        self._read_calibration(connection)

    def _read_calibration(self, connection: Connection) -> None:
        """Take the newest calibration, unless it is the one in use."""
        stored = connection.execute(
            SQL["newest_calibration"], (f"{self._begins}sha256:%",)
        ).fetchone()
        if stored is not None and stored[0] != self._id:
            self._id, self.calibration = stored[0], CALIBRATION_FORM.decode(stored[1])
            self.index.recentre(self.calibration.centre)

    def _begin(self, connection: Connection) -> None:
        """Start from a new centre; thresholds are found again when they are asked for."""
        self.index.recentre()
        found = Calibration(len(self.index), self.index.judged_count(), self.index.centre)
        self._keep(connection, found)

    def _keep(self, connection: Connection, found: Calibration) -> None:
        body = CALIBRATION_FORM.encode(found)
        self.calibration, self._id = found, self._begins + CALIBRATION_FORM.id(found)
        connection.execute(SQL["add_calibration"], (self._id, body))

    def _is_news(self, name: str, tokens: bytes) -> bool:
        """Tell whether a look is not known yet, or got tokens of this maker, or lost them."""
        return self.index.has_tokens(name) is not bool(made_by(self._maker, tokens))

    def _look(self, name: str, body: bytes, letters: bytes, tokens: bytes) -> EvidenceLook:
        try:
            return EvidenceLook(name, _BODY.decode(body), letters, made_by(self._maker, tokens))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise IntegrityFailure(f"a stored pattern cannot be read: {error}") from error


def _outcome(row: Row) -> tuple[str, str, Outcomes]:
    name, model, samples, score_sum, judged, cost = row
    counted, weighed = int(samples), int(judged)
    mean_cost = divide(int(cost), counted) if counted else 0
    success = divide(int(score_sum), weighed) if weighed else 0
    return str(name), str(model), Outcomes.of(counted, mean_cost, weighed, success)
