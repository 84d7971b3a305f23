"""How many verdicts are recorded, by their source: a user, a judge, or a sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from msgspec import UNSET

from pointsman.errors import IntegrityFailure
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import LATEST
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.learning.shadow_runs import JUDGED
from pointsman.sessions.envelope import read_event
from pointsman.sessions.events.session import FeedbackExplicit, FeedbackImplicit
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors

MOST_READ: Final = 20_000
"""So many of the latest verdicts of each kind of entry are counted."""

_KINDS: Final = (FEEDBACK, JUDGED, "event.feedback.explicit", "event.feedback.implicit")


def count_verdicts(home: Home) -> dict[str, int]:
    """Count the recorded verdicts by kind, the most frequent first."""
    if not home.database.exists():
        return {}
    found: Counter[str] = Counter()
    with told_errors(home.database), closing(home.reader()) as ledger:
        for kind in _KINDS:
            for stored in ledger.recent(kind, LATEST, MOST_READ):
                found.update(_kinds_of(stored.entry))
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def _kinds_of(entry: Entry) -> Iterator[str]:
    """Yield the kind of a verdict; of an entry that cannot be read none: `verify` names it."""
    try:
        if entry.kind == JUDGED:
            yield "judge"
        elif entry.kind == FEEDBACK:
            sign = FEEDBACK_FORM.read(entry.payload).sign
            yield "user" if sign is UNSET else sign
        else:
            payload = read_event(entry).payload
            if isinstance(payload, FeedbackExplicit):
                yield "user"
            elif isinstance(payload, FeedbackImplicit):
                yield payload.signal
    except IntegrityFailure:
        return
