"""A pattern store that counts turns which differ in what a test says."""

from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, MicroUsd, billionths
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.learning.fingerprint import Fingerprint, hashed_vector

AT = Instant(1_000 * DAY)
SURE = ONE
PLAIN = Fingerprint()


class Store(PatternStore):
    """Records turns that differ in what a test says."""

    def turn(self, name, look=PLAIN, *, text="", model="p:m", cost=1_000, at=AT):
        return self.record(
            look,
            hashed_vector(text),
            model=model,
            turn_id=name,
            cost_microusd=MicroUsd(cost),
            latency_ms=7,
            pricing_version="2026-01",
            at=Instant(at),
        )

    def score(self, turn, score, eval_id, confidence=SURE):
        return self.update_score(turn, billionths(score), confidence, eval_id)

    def only(self):
        (row,) = self.nearest(PLAIN, b"", 10)
        return row


def look(number):
    return Fingerprint(workspace_hash=f"w{number}")
