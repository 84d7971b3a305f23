"""Decide a fixed corpus of turns and print one digest over all decision bytes.

Run as a script by every interpreter and under every hash seed; the digests must be equal.
"""

import hashlib
import sys
from itertools import product

from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import sealed
from pointsman.testing.builders import a_policy, some_facts
from pointsman.turns.decide import DECIDER
from pointsman.turns.facts import FACTS_FORM, with_seal
from pointsman.turns.policy import EMBEDDED_MODEL, POLICY_FORM

STATES = ("healthy", "degraded", "unavailable")
MESSAGES = ("hello", "", "größe \U0001f600\ufb33", "line\nbreak\x00", "x" * 500)


def decisions():
    """Give the bytes of every decision of the corpus, with its inputs, in a fixed order."""
    names = [EMBEDDED_MODEL, "acme:a", "acme:b", "größe:\U0001f600", "z:\ufb33"]
    for default, message, state in product([None, *names], MESSAGES, STATES):
        policy = POLICY_FORM.form.encode(a_policy(default, *names[1:]))
        run = DECIDER.under(policy)
        for configured, target in product((None, tuple(names), ()), ("acme", default or "x")):
            facts = some_facts(
                message, configured=configured, availability={target: state, "b": STATES[0]}
            )
            stored = FACTS_FORM.encode(with_seal(facts, sealed(message, b"k" * 32)))
            yield policy, stored, run(stored, lambda _seal, text=message: text)


def main() -> None:
    """Print the digest."""
    digest = hashlib.sha256()
    count = 0
    for policy, facts, decided in decisions():
        digest.update(content_id(policy).encode() + content_id(facts).encode())
        digest.update(decided.outcome + decided.trace)
        count += 1
    sys.stdout.write(f"{count} {digest.hexdigest()}\n")


if __name__ == "__main__":
    main()
