"""The product's own API: preview, place, read what was recorded, replay and verify."""

from __future__ import annotations

from contextlib import closing

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.access.book import SPEND
from pointsman.audit.turn_shapes import turn_answer
from pointsman.errors import DocumentError, NotFound
from pointsman.gateway.access import check_reader
from pointsman.gateway.api import query
from pointsman.gateway.api.bodies import body_as
from pointsman.gateway.api.gauges import gauge_lines
from pointsman.gateway.api.policies.writing import policy_state
from pointsman.gateway.api.shapes import ClearProviderBody, LedgerState, ReadinessAnswer
from pointsman.gateway.asgi import Handler, answer_text, named_parts
from pointsman.gateway.http import Asked, Receive, Send, answer_value, error_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.kernel.document import Document, Limits
from pointsman.kernel.instant import EPOCH, instant_text
from pointsman.kernel.json_text import read_json
from pointsman.operations.providers import provider_rows, recoveries
from pointsman.placement.explain import to_json
from pointsman.placement.facts import read_facts as read_placement_facts
from pointsman.providers.dialects.look import look
from pointsman.signals.tokens import count_tokens
from pointsman.storage.place import Place
from pointsman.storage.stores.spend_reading import By, SpendReader
from pointsman.turns.explain import to_json as shown_value
from pointsman.turns.facts import read_facts
from pointsman.version import VERSION


class Api:
    """Serves everything that is not a model's endpoint."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/health"): self.health,
            ("GET", "/health/readiness"): self.readiness,
            ("GET", "/metrics"): self.metrics,
            ("GET", "/v1/models"): self.models,
            ("GET", "/v1/models/{id}"): self.model,
            ("POST", "/api/route/preview"): self.preview,
            ("POST", "/api/place"): self.place,
            ("GET", "/api/turns/{id}"): self.turn,
            ("GET", "/api/cost"): self.cost,
            ("POST", "/v1/messages/count_tokens"): self.count_tokens,
            ("GET", "/api/providers"): self.providers,
            ("POST", "/api/providers/clear"): self.clear_provider,
            ("POST", "/api/replay"): self.replay,
            ("POST", "/api/verify"): self.verify,
        }

    async def health(self, _asked: Asked, _receive: Receive, send: Send) -> None:
        """Say that the process is there."""
        await answer_value(send, {"status": "ok", "version": VERSION})

    async def readiness(self, _asked: Asked, _receive: Receive, send: Send) -> None:
        """Say whether turns can be served, and what is wrong with any part of it.

        Ready is whoever can serve a turn: the ledger takes entries, and nobody said to stop.
        """
        parts, pointsman = self._parts, self._parts.pointsman
        ledger = pointsman.desk.recorder().health
        in_force = pointsman.in_force()
        is_ready = ledger.is_writable and not parts.stopping
        value = ReadinessAnswer(
            "ok" if is_ready else "draining" if parts.stopping else "unavailable",
            LedgerState(ledger.is_writable, ledger.cause),
            tuple(str(each) for each in in_force.problems),
            policy_state(pointsman.files, in_force),
            UNSET if parts.sharing is None else parts.sharing.report(),
        )
        await answer_value(send, value, 200 if is_ready else 503)

    async def metrics(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Give the counts for Prometheus."""
        check_reader(self._parts, asked)
        text = self._parts.metrics.text() + "\n".join([*gauge_lines(self._parts), ""])
        await answer_text(send, text, b"text/plain; version=0.0.4; charset=utf-8")

    async def models(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """List the models a caller may name."""
        await answer_value(send, {"object": "list", "data": self._model_values(asked)})

    async def model(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell about one model."""
        name = named_parts("/v1/models/{id}", asked.path)["id"]
        found = [each for each in self._model_values(asked) if each["id"] == name]
        if not found:
            raise NotFound(f"the model `{name}` is not known here")
        await answer_value(send, found[0])

    def _model_values(self, asked: Asked) -> list[dict[str, object]]:
        caller = check_reader(self._parts, asked, scope="models")
        known = self._parts.pointsman.in_force().ready.models
        names = [
            name for name in known if caller.allowed_models is None or name in caller.allowed_models
        ]
        return [
            {"id": name, "object": "model", "created": 0, "owned_by": owner}
            for name, owner in (("auto", "pointsman"), *((each, _owner(each)) for each in names))
        ]

    async def preview(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Decide a turn on facts a caller wrote; recorded as a preview, calls nobody."""
        check_reader(self._parts, asked, "act")
        pointsman = self._parts.pointsman
        document, in_force = _document(asked), pointsman.in_force()
        facts = pointsman.given_facts(read_facts(document), in_force=in_force)
        if isinstance(document.value, dict) and "availability" not in document.value:
            facts = replace(facts, availability=self._parts.health.peek())
        shown = await in_thread(lambda: pointsman.route(facts, is_preview=True, in_force=in_force))
        await answer_value(send, shown_value(shown))

    async def place(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Decide whether a question may leave this machine."""
        check_reader(self._parts, asked, "act")
        pointsman = self._parts.pointsman
        try:
            given = read_placement_facts(_document(asked))
        except DocumentError as error:
            problems = [str(each) for each in error.problems]
            told = error_value(error, pointsman.ids.new_id(), instant_text(pointsman.clock.now()))
            value = {"error_code": "E-VALID-001", "rule_id": "", "reason": error.message}
            await answer_value(send, {**told, **value, "problems": problems}, 400)
            return
        in_force = pointsman.in_force()
        facts = pointsman.placement_facts(given, in_force=in_force)
        shown = await in_thread(lambda: pointsman.place(facts, in_force=in_force))
        await answer_value(send, to_json(shown))

    async def count_tokens(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Count the tokens of a request in Anthropic's shape; an estimate, as everywhere here."""
        check_reader(self._parts, asked, scope="models")
        seen = look("messages", asked.body)
        await answer_value(send, {"input_tokens": count_tokens(seen.all_text())})

    async def cost(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell what was spent, by model, key, session and day."""
        check_reader(self._parts, asked)
        place = self._parts.pointsman.home.place(SPEND)
        await answer_value(send, await in_thread(lambda: _spending(place)))

    async def turn(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell what happened in a turn, and why."""
        check_reader(self._parts, asked)
        name = named_parts("/api/turns/{id}", asked.path)["id"]
        pointsman = self._parts.pointsman
        await answer_value(send, await in_thread(lambda: turn_answer(pointsman.read_turn(name))))

    async def providers(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell which providers and models are out, since when, and until when."""
        check_reader(self._parts, asked)
        parts = self._parts
        reports = parts.health.reports(parts.pointsman.in_force().ready.models)
        rows = provider_rows(reports, parts.pointsman.clock.now())
        await answer_value(send, {"rows": rows, "limits": parts.health.rates.rows()})

    async def clear_provider(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """End the outage of a provider or a model, for all processes of the home."""
        check_reader(self._parts, asked, "act")
        name, pointsman = body_as(asked, ClearProviderBody).name, self._parts.pointsman
        changes = await in_thread(lambda: pointsman.clear_outage(name))
        await answer_value(send, {"name": name, "cleared": recoveries(changes)})

    async def replay(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Re-run what was recorded."""
        check_reader(self._parts, asked, "act")
        pointsman, since = self._parts.pointsman, query.instant(asked, "since", EPOCH)
        report = await in_thread(lambda: pointsman.replay_all(since))
        await answer_value(send, report)

    async def verify(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Check the whole ledger."""
        check_reader(self._parts, asked, "act")
        pointsman = self._parts.pointsman
        report = await in_thread(pointsman.verify)
        value = {"intact": report.is_intact, "entries": report.entries, "faults": report.faults}
        await answer_value(send, value)


def _owner(name: str) -> str:
    return name.partition(":")[0]


def _document(asked: Asked) -> Document:
    return read_json(asked.body, "the body", Limits(bytes=max(len(asked.body), 1)))


def _spending(place: Place) -> dict[str, object]:
    if not place.exists():
        return {}
    with closing(SpendReader(place)) as reader:
        parts: tuple[By, ...] = ("all", "model", "key", "session", "day")
        return {f"by_{part}": reader.totals(part) for part in parts}
