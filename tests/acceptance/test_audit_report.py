"""The report of a period: numbers that their own queries give again, on both surfaces."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from tests.gateway.house import model, provider, running, upstream, write_home

from pointsman import Pointsman
from pointsman.audit.ledger_query import LedgerQuery, ReportPeriod
from pointsman.audit.witness_entries import BACK, LOST, TROUBLE_FORM, WitnessTrouble
from pointsman.cli.main import main
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant, instant_text, read_instant

FROM, TO = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def run(home: Path, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["--home", str(home), *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[httpx.Response]]:
    """A home in which something of every sort happened, and what its gateway answered."""
    path = tmp_path_factory.mktemp("report") / "home"
    with upstream() as big:
        models = {
            "providers": {"open": provider("openai", big.url)},
            "models": {"open:big": model(aliases=["big"])},
            "schema_version": 1,
        }
        quiet = {"telemetry": {"logs": "off"}}
        home = write_home(path, models=models, pointsman=quiet)
        (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: open:big\n")
        with running(home) as live:
            headers = {"authorization": f"Bearer {live.admin}"}
            keys = {}
            for tenant in ("acme", "birch"):
                wish = {"name": tenant, "scopes": ["models", "read"], "tenant": tenant}
                made = live.client.post("/api/keys", json=wish, headers=headers)
                keys[tenant] = {"authorization": f"Bearer {made.json()['key']}"}
            for number in range(3):
                live.chat(f"hello {number}", headers=keys["acme"])
            live.chat("@big hello", headers=keys["birch"])
            live.chat("secret", headers={**keys["birch"], "x-pointsman-privacy": "local"})
            live.outcomes(5)
            report = live.client.get(f"/api/audit/report?from={FROM}&to={TO}", headers=headers)
            assert report.status_code == 200, report.text
            numbers = [n for s in report.json()["sections"] for n in s["numbers"]]
            again = [live.client.get(n["route"].removeprefix("GET "), headers=headers)
                     for n in numbers]  # fmt: skip
            page = live.client.get(f"/api/audit/report?from={FROM}&to={TO}&format=html",
                                   headers=headers)  # fmt: skip
            own = live.client.get(f"/api/audit/report?from={FROM}&to={TO}", headers=keys["acme"])
            other = live.client.get(f"/api/audit/report?from={FROM}&to={TO}&tenant=birch",
                                    headers=keys["acme"])  # fmt: skip
    with Pointsman(home) as pointsman:
        now = pointsman.clock.now()
        for kind, at in ((LOST, now), (BACK, now + 5)):
            trouble = WitnessTrouble("w1.example", "unreachable", "gone", now - 60_000_000)
            payload = TROUBLE_FORM.encode(trouble)
            pointsman.decision_recorder.recorder().record(
                Draft(kind, f"{kind}-1", "w1.example", Instant(at), payload)
            )
    return home, [report, page, own, other, *again]


def numbers(report: dict[str, object]) -> dict[str, dict[str, object]]:
    return {n["name"]: n for s in report["sections"] for n in s["numbers"]}  # type: ignore[index, attr-defined]


def test_the_report_tells_what_happened(house: tuple[Path, list[httpx.Response]]) -> None:
    told = json.loads(run(house[0], "audit", "report", "--from", FROM, "--to", TO, "--json").output)
    found = numbers(told)
    assert found["turns"]["value"] == 5
    assert found["cloud_calls"]["groups"] == {"open:big": 4}
    assert found["overrides"]["value"] == 1
    assert found["kept_here"]["value"] >= 1
    assert found["lost"]["value"] == found["back"]["value"] == 1
    assert [gap["witness"] for gap in told["gaps"]] == ["w1.example"]
    assert told["gaps"][0]["until"] is not None
    assert told["intact"] is True


def test_every_number_is_given_again_by_its_command(
    house: tuple[Path, list[httpx.Response]],
) -> None:
    told = json.loads(run(house[0], "audit", "report", "--from", FROM, "--to", TO, "--json").output)
    found = numbers(told)
    assert len(found) > 25
    for name, number in found.items():
        program, *arguments = shlex.split(str(number["command"]))
        assert program == "pointsman"
        again = json.loads(run(house[0], *arguments).output)
        assert (again["value"], again["groups"]) == (number["value"], number["groups"]), name


def test_every_number_is_given_again_by_its_route(
    house: tuple[Path, list[httpx.Response]],
) -> None:
    report, _page, _own, _other, *again = house[1]
    assert report.status_code == 200
    for number, answer in zip(numbers(report.json()).values(), again, strict=True):
        assert answer.status_code == 200, answer.text
        assert answer.json()["value"] == number["value"], number["name"]


def test_a_tenant_sees_its_own_share_and_no_other(
    house: tuple[Path, list[httpx.Response]],
) -> None:
    _report, _page, own, other, *_ = house[1]
    told = own.json()
    assert told["tenant"] == "acme"
    found = numbers(told)
    assert (found["turns"]["value"], found["cloud_calls"]["value"]) == (3, 3)
    assert "actions" not in found
    assert other.status_code == 404
    by_admin = run(
        house[0], "audit", "report", "--from", FROM, "--to", TO, "--tenant", "birch", "--json"
    )
    birch = numbers(json.loads(by_admin.output))
    assert (birch["turns"]["value"], birch["cloud_calls"]["value"]) == (2, 1)
    for number in birch.values():
        again = json.loads(run(house[0], *shlex.split(str(number["command"]))[1:]).output)
        assert again["value"] == number["value"]


def test_a_period_has_a_beginning_and_an_end(house: tuple[Path, list[httpx.Response]]) -> None:
    home = house[0]
    with Pointsman(home) as pointsman:
        turns = LedgerQuery("decision.turn")
        whole = pointsman.count_entries(turns, ReportPeriod())
        times = sorted(each.at for each in pointsman.recent(100))
        middle = times[2]
        early = pointsman.count_entries(turns, ReportPeriod(end=middle))
        late = pointsman.count_entries(turns, ReportPeriod(start=middle))
    assert (early.value, late.value) == (2, whole.value - 2)
    text = instant_text(middle)
    assert read_instant(text) == middle
    told = run(home, "audit", "report", "--from", text, "--to", text, code=2).output
    assert "ends before it begins" in told


def test_the_page_is_whole_and_needs_nothing(house: tuple[Path, list[httpx.Response]]) -> None:
    page = house[1][1].text
    assert house[1][1].headers["content-type"].startswith("text/html")
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
    assert "@page" in page
    report = house[1][0].json()
    for number in numbers(report).values():
        assert f'<td class="n">{number["value"]:,}</td>' in page
    assert page.count("<table>") == page.count("</table>")


def test_names_in_a_page_are_text(tmp_path: Path, house: tuple[Path, list[httpx.Response]]) -> None:
    target = tmp_path / "report.html"
    run(
        house[0],
        "audit",
        "report",
        "--from",
        FROM,
        "--to",
        TO,
        "--tenant",
        "<b>x",
        "--html",
        str(target),
    )
    page = target.read_text()
    assert "<b>x" not in page
    assert "&lt;b&gt;x" in page


@pytest.mark.parametrize(
    ("where", "said"),
    [("no condition", "is not a condition"), ("a b=c", "is not a path"), ("=x", "is not a path")],
)
def test_a_query_that_cannot_be_meant_is_refused(
    house: tuple[Path, list[httpx.Response]], where: str, said: str
) -> None:
    assert said in run(house[0], "audit", "count", "--kind", "x", "--where", where, code=2).output
