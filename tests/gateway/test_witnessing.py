"""A gateway with witnesses: logs over HTTP, cosignatures beside turns, gauges, proofs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.gateway.house import Running, eventually, model, provider, running, upstream, write_home

sys.path.insert(0, str(Path(__file__).parents[1] / "tamper"))

from rewriting import home_key, running_witness

from pointsman.kernel.cosignature import read_cosigned
from pointsman.kernel.merkle import Frontier, append_leaves, root
from pointsman.kernel.note import WITNESS, from_base64, read_note_key
from pointsman.storage.home import open_home


def make_home(path: Path, url: str, **settings: object) -> Path:
    models = {
        "schema_version": 1,
        "providers": {"open": provider("openai", url)},
        "models": {"open:big": model()},
    }
    routing = {"schema_version": 1, "global_default": "open:big"}
    return write_home(path, models=models, routing=routing, pointsman=settings)


def bearer(live: Running) -> dict[str, str]:
    return {"authorization": f"Bearer {live.admin}"}


def gauge(live: Running, name: str) -> str:
    text = live.client.get("/metrics", headers=bearer(live)).text
    return next((line for line in text.splitlines() if line.startswith(name)), "")


def test_checkpoints_and_tiles_are_served_in_the_c2sp_forms(live: Running) -> None:
    live.chat("one")
    headers = bearer(live)
    note = eventually(lambda: _text(live, "/tlog/serve/checkpoint"), seconds=20)
    origin, size, tree, *_ = note.split("\n")
    assert origin.endswith("/serve")
    path = "/tlog/serve/tile/0/000" + ("" if size == "256" else f".p/{size}")
    answer = live.client.get(path, headers=headers)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "immutable" in answer.headers["cache-control"]
    leaves = [answer.content[at : at + 32] for at in range(0, len(answer.content), 32)]

    assert root(append_leaves(Frontier(), leaves)) == from_base64(tree)
    beyond = f"/tlog/serve/tile/0/000.p/{int(size) + 1}"
    others = ("tile/0/001", "tile/x/000", "tile/0/000.p/300", "cosigned")
    elsewhere = ("/tlog/none/checkpoint", "/tlog/..%2fx/checkpoint")
    for wrong in (beyond, *elsewhere, *(f"/tlog/serve/{each}" for each in others)):
        assert live.client.get(wrong, headers=headers).status_code == 404, wrong


def _text(live: Running, path: str) -> str | None:
    answer = live.client.get(path, headers=bearer(live))
    return answer.text if answer.status_code == 200 else None


def test_logs_are_for_keys_that_read(live: Running) -> None:
    keys = {}
    for scope in ("models", "read"):
        wish = {"name": scope, "scopes": [scope]}
        made = live.client.post("/api/keys", json=wish, headers=bearer(live))
        assert made.status_code == 201, made.text
        keys[scope] = made.json()["key"]
    for path in ("/tlog/serve/checkpoint", "/tlog/serve/tile/0/000", "/tlog/serve/cosigned"):
        assert live.client.get(path).status_code == 401
        headers = {"authorization": f"Bearer {keys['models']}"}
        assert live.client.get(path, headers=headers).status_code == 403
        headers = {"authorization": f"Bearer {keys['read']}"}
        assert live.client.get(path, headers=headers).status_code in {200, 404}


def test_turns_are_cosigned_beside_and_never_wait(tmp_path: Path) -> None:
    """Two witnesses, one of them gone: the answer comes, one cosigns, the gap is a gauge."""
    with upstream() as big:
        home = make_home(tmp_path / "home", big.url)
        key = home_key(open_home(home))
        with running_witness(tmp_path / "w1", "w1.example", key) as first:
            with running_witness(tmp_path / "w2", "w2.example", key) as gone:
                pass
            settings = {
                "quorum": 1,
                "every_s": 1,
                "of": [{"url": each.url, "key": each.key} for each in (first, gone)],
            }
            write_home(home, pointsman={"witnesses": settings, "telemetry": {"logs": "off"}})
            with running(home) as live:
                assert live.chat("one").status_code == 200
                assert len(big.requests) == 1
                note = eventually(lambda: _text(live, "/tlog/serve/cosigned"), seconds=30)
                up = "pointsman_witness_up"
                assert gauge(live, f'{up}{{witness="w1.example"}}').endswith(" 1")
                eventually(
                    lambda: gauge(live, f'{up}{{witness="w2.example"}}').endswith(" 0") or None
                )
                entries = gauge(live, 'pointsman_witnessed_entries{chain="serve"}')
                assert int(entries.rpartition(" ")[2]) > 0
                told = live.client.post("/api/verify", headers=bearer(live)).json()
            head, found = read_cosigned(note, [read_note_key(first.key, WITNESS)])
            assert (head.size > 0, [each.witness for each in found]) == (True, ["w1.example"])
            (proof,) = (each for each in told["proofs"] if each["chain"] == "serve")
            assert told["intact"]
            assert proof["ranges"][0]["against"] == "operator_with_key"
            assert proof["witnesses"][0]["witness"] == "w1.example"


def test_a_home_without_witnesses_starts_nothing(live: Running) -> None:
    assert live.parts.witnessing == []
    assert gauge(live, "pointsman_witness_up{") == ""
