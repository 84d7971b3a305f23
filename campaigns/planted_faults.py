"""Faults to plant in a copy of the product, one at a time: a name, a file, a text and its stead.

The list was written before the simulator's oracles were tuned on it. Faults marked `history` are
those that the product once had.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One fault: every text must stand in its file once."""

    name: str
    path: str
    old: str
    new: str


FAULTS = (
    Fault(
        "a lost wake-up after an inline commit", "storage/writer/group.py",
        "if self._is_long_sleep or self._waiters or self._prepared is not None:",
        "if self._is_long_sleep or self._prepared is not None:",
    ),
    Fault(
        "a lost wake-up of the writer thread", "storage/writer/group.py",
        "if self._waiters >= waiters or self._prepared is not None or self._closed_reason:",
        "if self._prepared is not None or self._closed_reason:",
    ),
    Fault(
        "a waiter that is never told when all is durable already", "storage/writer/durability.py",
        "if ready is not None and self._arrived >= self._expected:",
        "if ready is not None and self._arrived > self._expected:",
    ),
    Fault(
        "a reservation that a failed call keeps", "calls/model_call.py",
        "            budgets.release(reservation)\n            return None",
        "            return None",
    ),
    Fault(
        "a reservation that a cancelled call keeps", "calls/model_call.py",
        "        if self.is_open:\n            self._finish(",
        "        if False:\n            self._finish(",
    ),
    Fault("the ledger's writes are not synced", "storage/sqlite/ledger.py",
          "sync=place.sync,", 'sync="NORMAL",'),
    Fault("the texts' writes are not synced at all", "storage/sqlite/place.py",
          'sync: str = "FULL"', 'sync: str = "OFF"'),
    Fault(
        "a policy that stays in force for 30 s", "gateway/serving/services.py",
        "asyncio.get_running_loop().call_soon(self.looked.clear)",
        "asyncio.get_running_loop().call_later(30, self.looked.clear)",
    ),
    Fault(
        "an edit of a policy file that is not seen", "storage/policies/policy_file.py",
        "return self._is_seen and _stat_key(self._name) == self._key",
        "return self._is_seen",
    ),
    Fault(
        "the answers of two turns are swapped", "gateway/turns/turn_batcher.py",
        "        _each(turns, self._read_answer, self._wait)",
        "        _each(turns, self._read_answer)\n"
        "        if len(turns) > 1 and not turns[0].is_over and not turns[1].is_over:\n"
        "            turns[0].body, turns[1].body = turns[1].body, turns[0].body\n"
        "        _each(turns, self._wait)",
    ),
    Fault(
        "a taint that is dropped at a fallback", "recording/ruling.py",
        "    kept = decide_model(policies, before.placing, facts)\n",
        "    free = replace(before.placing.outcome, gate='open')\n"
        "    kept = decide_model(policies, replace(before.placing, outcome=free), facts)\n",
    ),
    Fault(
        "a call is charged twice", "access/home_budgets.py",
        "            self._counts.settle(hold, spend_key(spent), spend_amounts(spent))\n",
        "            self._counts.settle(hold, spend_key(spent), spend_amounts(spent))\n"
        "            self._book.add(spent)\n",
    ),
    Fault(
        "an answer leaves before its decision is durable", "gateway/turns/forwarding.py",
        '        await live.hold(reason or "")\n        await live.durability.wait()\n',
        '        await live.hold(reason or "")\n',
    ),
    Fault(
        "a stream begins before its decision is durable", "gateway/turns/forwarding.py",
        "        call.stop_waiting()\n        await live.durability.wait()\n",
        "        call.stop_waiting()\n",
    ),
    Fault(
        "a batch of answers leaves before it is durable", "gateway/turns/turn_batcher.py",
        "turn.live.durability.then(turn.on_durable)", "turn.on_durable()",
    ),
    Fault(
        "a named model is swapped after a failure", "calls/flow.py",
        "    return ruling.facts.named_model != ruling.model",
        "    return True",
    ),
    Fault(
        "a turn's lock is not held", "calls/flow.py",
        "        self._held[session_id] = lock\n        self._held.move_to_end(session_id)\n",
        "",
    ),
    Fault(
        "a lock of another session is found", "calls/flow.py",
        "        found = self._held.get(session_id)\n",
        "        found = next(reversed(self._held.values()), None)\n",
    ),
    Fault(
        "a taint of this process does not count at once", "recording/taints.py",
        "        self.take(session_id, taint)\n        self.listener",
        "        self.listener",
    ),
    Fault(
        "a taint is forgotten at a restart", "recording/taints.py",
        "                self._set(entry.ref, TAINT_FORM.decode(entry.payload))\n",
        "                pass\n",
    ),
    Fault(
        "a tool's result is sent on wherever it may go", "calls/flow.py",
        "    is_refused = not is_let_go and not may_call(policies, placing, lock.model)",
        "    is_refused = False",
    ),
    Fault(
        "money set aside by others is not counted", "storage/stores/spend_counts.py",
        "- counted.settled_microusd - counted.reserved_microusd", "- counted.settled_microusd",
    ),
    Fault(
        "a cap stops only what is over it already", "storage/stores/spend_counts.py",
        "if hold.amount_microusd > left:", "if left < 0:",
    ),
    Fault(  # history
        "a power cut takes sums and the mark that they lack calls", "storage/stores/spend.py",
        'durable = self._place.writing("spend.sql", is_lean=True)',
        'durable = self._place.writing("spend.sql", sync="NORMAL", is_lean=True)',
    ),
    Fault(  # history
        "a text from before a clock was set back is not erased", "operations/erasure/erase.py",
        "if days else LATEST", "if days else Instant(self._clock.now() + DAY)",
    ),
    Fault(
        "the end of a stream is not recorded", "gateway/turns/forwarding.py",
        "            return self._fail(broken)\n        self._complete_stream(answer, seen)\n",
        "            return self._fail(broken)\n",
    ),
    Fault(
        "a fallback is not recorded", "calls/flow.py",
        '        yield Record(ruling, "fallback")\n',
        "",
    ),
    Fault(
        "the model that failed is tried again", "recording/ruling.py",
        "excluded = (*before.facts.excluded_models, failed)",
        "excluded = before.facts.excluded_models",
    ),
    Fault(
        "a model that was out never comes back", "recording/health.py",
        "holder = self._clock.now(), self._holder\n        return self._take(",
        "holder = self._clock.now(), self._holder\n        return 0 and self._take(",
    ),
    Fault(
        "entries are chained behind a group that failed", "storage/writer/ledger.py",
        "        if group.entries[0].prev != self._head.hash:", "        if False:",
    ),
    Fault(
        "a failed write is acknowledged", "storage/writer/ledger.py",
        "            self._settle_doubt(entries[-1], error)\n", "            pass\n",
    ),
    Fault(
        "the log goes on after a failed sync", "storage/sqlite/ledger.py",
        "        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)\n",
        "        pass\n",
    ),
    Fault(
        "a cancelled request counts as under way for ever", "gateway/turns/turn_batcher.py",
        "        except PointsmanError as error:\n            failed = error\n"
        "        self.endpoint.finish_request(200, turn.live, failed)\n\n\ndef _needs_more",
        "        except PointsmanError as error:\n            failed = error\n"
        "\n\ndef _needs_more",
    ),
    Fault(
        "a late answer is not cut off from its connection", "providers/http/connection.py",
        "        exchange = self._exchange\n        self.abort()\n        if exchange is not None:",
        "        exchange, self._exchange = self._exchange, None\n        if exchange is not None:",
    ),
    Fault(
        "an answer's connection is never given back", "gateway/turns/forwarding.py",
        "        finally:\n            await answer.close()", "        finally:\n            pass",
    ),
    Fault(
        "metrics count input tokens as output", "gateway/telemetry/call_telemetry.py",
        "counted.output.value += spent.output_tokens", "counted.output.value += spent.input_tokens",
    ),
    Fault(
        "facts are recorded without what was out", "recording/ruling.py",
        "    facts = turn_facts.FACTS_FORM.encode(turn_facts.with_seal(ruling.facts, seal))",
        "    facts = turn_facts.FACTS_FORM.encode(\n"
        "        replace(turn_facts.with_seal(ruling.facts, seal), availability={}))",
    ),
    Fault(
        "a decision is recorded twice", "gateway/turns/turn_batcher.py",
        "            turn.live.record(effect)\n",
        "            turn.live.record(effect)\n            turn.live.record(effect)\n",
    ),
    Fault(
        "an erasure leaves one text", "operations/erasure/erase.py",
        "recorder.erase_texts(found.digests)", "recorder.erase_texts(found.digests[1:])",
    ),
    Fault(
        "a clock set back brings yesterday's budget back", "access/home_budgets.py",
        "        self._now = max(self._now, now)\n", "        self._now = now\n",
    ),
)  # fmt: skip
