"""How well and how fast personal data and secrets are found: ours, presidio, bc-detect-secrets.

One run on the corpus of tests/cases/detection. A peer is compared only on kinds that it claims; a
find counts when one of the found and the expected value holds the other, for all three alike; the
reserved example domains are renamed for the comparison, because detect-secrets leaves them out.
Times depend on the machine; the ratios do not. Writes bench/results/detection.json and a plot.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figures import round_figures

from pointsman.signals.detectors import DETECTOR, KINDS, detect

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
CORPUS = ROOT / "tests" / "cases" / "detection"
PEERS = ROOT / ".venv-bench-detection"
PEER_PYTHON = PEERS / "bin" / "python"
REQUIREMENTS = HERE / "detection-requirements.txt"

Finds = list[tuple[str, str]]

# What a peer calls our kinds. Where it knows one kind for several of ours, ours are taken together.
PRESIDIO = {
    "email": (("email",), ("EMAIL_ADDRESS",)),
    "phone": (("phone",), ("PHONE_NUMBER",)),
    "payment_card": (("payment_card",), ("CREDIT_CARD",)),
    "iban": (("iban",), ("IBAN_CODE",)),
    "ip address": (("ip_address", "private_ip_address"), ("IP_ADDRESS",)),
    "us_ssn": (("us_ssn",), ("US_SSN",)),
    "uk_nhs": (("uk_nhs",), ("UK_NHS",)),
    "es_dni": (("es_dni",), ("ES_NIF", "ES_NIE")),
    "it_codice_fiscale": (("it_codice_fiscale",), ("IT_FISCAL_CODE",)),
    "pl_pesel": (("pl_pesel",), ("PL_PESEL",)),
    "fi_hetu": (("fi_hetu",), ("FI_PERSONAL_IDENTITY_CODE",)),
    "in_aadhaar": (("in_aadhaar",), ("IN_AADHAAR",)),
    "ca_sin": (("ca_sin",), ("CA_SIN",)),
    "se_personnummer": (("se_personnummer",), ("SE_PERSONNUMMER",)),
    "de_steuer_id": (("de_steuer_id",), ("DE_TAX_ID",)),
}
SECRETS = {
    "aws keys": (("aws_access_key", "aws_secret_key"), ("AWS Access Key",)),
    "github_token": (("github_token",), ("GitHub Token",)),
    "npm_token": (("npm_token",), ("NPM tokens",)),
    "slack": (("slack_token", "slack_webhook"), ("Slack Token",)),
    "stripe_key": (("stripe_key",), ("Stripe Access Key",)),
    "sendgrid_key": (("sendgrid_key",), ("SendGrid API Key",)),
    "twilio_key": (("twilio_key",), ("Twilio API Key",)),
    "jwt": (("jwt",), ("JSON Web Token",)),
    "private_key": (("private_key",), ("Private Key",)),
    "basic_auth_url": (("basic_auth_url",), ("Basic Auth Credentials",)),
    "azure_storage_key": (("azure_storage_key",), ("Azure Storage Account access key",)),
    "assignments": (("password_assignment", "generic_secret"), ("Secret Keyword",)),
}
RESERVED = re.compile(r"example(?=\.(?:org|com|net))")
THRESHOLDS = (0.0, 0.35, 0.5, 0.6)


def join_text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


HELD_OUT_ONLY = {
    "passport": (
        ("passport",),
        ("US_PASSPORT", "UK_PASSPORT", "IT_PASSPORT", "ES_PASSPORT", "DE_PASSPORT"),
    ),
    "driving_licence": (
        ("driving_licence",),
        ("US_DRIVER_LICENSE", "UK_DRIVING_LICENCE", "IT_DRIVER_LICENSE", "DE_FUEHRERSCHEIN"),
    ),
    "date_of_birth": (("date_of_birth",), ("DATE_TIME",)),
    "bank_account": (("bank_account",), ("US_BANK_NUMBER", "ABA_ROUTING_NUMBER")),
    "uk_nino": (("uk_nino",), ("UK_NINO",)),
    "au_tfn": (("au_tfn",), ("AU_TFN",)),
    "kr_rrn": (("kr_rrn",), ("KR_RRN",)),
}
# Kinds that presidio claims only in part, or for some countries: compared on the held-out part.


def corpus(names: tuple[str, ...] = ("samples", "look_alikes")) -> list[tuple[str, Finds]]:
    lines = [
        line
        for name in names
        for line in (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [
        (
            join_text(case["text"]),
            [(each["kind"], join_text(each["value"])) for each in case["expected"]],
        )
        for case in map(json.loads, lines)
    ]


def elsewhere(cases: list[tuple[str, Finds]]) -> list[tuple[str, Finds]]:
    """Move every example.org to a domain that is not reserved: one peer leaves those out."""
    return [
        (
            RESERVED.sub("sakura", text),
            [(kind, RESERVED.sub("sakura", value)) for kind, value in finds],
        )
        for text, finds in cases
    ]


def ours(text: str) -> Finds:
    return [(hit.kind, text[hit.start : hit.end]) for hit in detect(text)]


def shares(right: int, wrong: int, missed: int) -> dict[str, float]:
    return {
        "samples": right + missed,
        "precision": right / (right + wrong) if right + wrong else 0.0,
        "recall": right / (right + missed) if right + missed else 0.0,
    }


def exact(cases: list[tuple[str, Finds]], found: list[Finds], kind: str) -> dict[str, float]:
    """Compare values character by character."""
    right = wrong = missed = 0
    for (_, expected), finds in zip(cases, found, strict=True):
        wanted = [value for name, value in expected if name == kind]
        said = [value for name, value in finds if name == kind]
        hits = sum(value in wanted for value in said)
        right, wrong, missed = right + hits, wrong + len(said) - hits, missed + len(wanted) - hits
    return shares(right, wrong, missed)


def covering(
    cases: list[tuple[str, Finds]], found: list[Finds], wanted_kinds: Iterable[str], said: set[str]
) -> dict[str, float]:
    """Compare values by whether one holds the other, the same for everybody."""
    right = wrong = missed = 0
    kinds = set(wanted_kinds)
    for (_, expected), finds in zip(cases, found, strict=True):
        wanted = [value for name, value in expected if name in kinds]
        values = {value for name, value in finds if name in said}
        hits = sum(any(touches(value, each) for each in values) for value in wanted)
        false = sum(not any(touches(value, each) for each in wanted) for value in values)
        right, wrong, missed = right + hits, wrong + false, missed + len(wanted) - hits
    return shares(right, wrong, missed)


def touches(one: str, other: str) -> bool:
    return bool(one and other) and (one in other or other in one)


def compare_kinds(cases, own: list[Finds], peer: list[Finds], names: dict) -> dict[str, Any]:
    return {
        name: {
            "ours": covering(cases, own, kinds, set(kinds)),
            "peer": covering(cases, peer, kinds, set(called)),
        }
        for name, (kinds, called) in names.items()
    }


def mean(rows: dict[str, Any], who: str, what: str) -> float:
    return sum(row[who][what] for row in rows.values()) / len(rows)


def best_threshold(cases, own: list[Finds], scored: list) -> tuple[float, dict[str, Any]]:
    """Find presidio's threshold at which it does best."""
    tried = {}
    for least in THRESHOLDS:
        peer = [
            [(kind, value) for kind, value, score in finds if score >= least] for finds in scored
        ]
        tried[least] = compare_kinds(cases, own, peer, PRESIDIO)
    best = max(
        tried, key=lambda t: mean(tried[t], "peer", "precision") + mean(tried[t], "peer", "recall")
    )
    return best, tried[best]


def held_out(
    cases: list[tuple[str, Finds]], own: list[Finds], scored: list, threshold: float
) -> dict[str, Any]:
    """Score the part that the detector was never tuned on, whole and beside presidio."""
    kinds = {kind for _, expected in cases for kind, _ in expected}
    names = {
        name: row for name, row in (PRESIDIO | HELD_OUT_ONLY).items() if kinds.intersection(row[0])
    }
    peer = [
        [(kind, value) for kind, value, score in finds if score >= threshold] for finds in scored
    ]
    ours_of = {kind for row in names.values() for kind in row[0]}
    called = {name for row in names.values() for name in row[1]}
    return {
        "values": sum(len(expected) for _, expected in cases),
        "texts_without": sum(1 for _, expected in cases if not expected),
        "ours": exact_all(cases, own),
        "on_presidios_kinds": {
            "ours": covering(cases, own, ours_of, ours_of),
            "presidio": covering(cases, peer, ours_of, called),
        },
    }


def exact_all(cases: list[tuple[str, Finds]], found: list[Finds]) -> dict[str, float]:
    """Compare all kinds together, character by character."""
    right = wrong = missed = 0
    for (_, expected), finds in zip(cases, found, strict=True):
        hits = sum(each in expected for each in finds)
        right += hits
        wrong += len(finds) - hits
        missed += sum(each not in finds for each in expected)
    return shares(right, wrong, missed)


def any_secret(cases, finds: list[Finds]) -> dict[str, float]:
    """Ask only whether a secret was found at all, under whatever name."""
    kinds = {kind.name for kind in KINDS if kind.group == "secret"}
    names = {name for each in finds for name, _ in each}
    return covering(cases, finds, kinds, names)


def times(work: Callable[[], object], rounds: int) -> dict[str, float]:
    found = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work()
        found.append((time.perf_counter_ns() - start) / 1000)
    found.sort()
    return {"p50_us": found[rounds // 2], "p95_us": found[rounds * 95 // 100]}


def speed_texts(cases: list[tuple[str, Finds]]) -> dict[str, str]:
    prose = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    code = (ROOT / "src" / "pointsman" / "turns" / "decide.py").read_text(encoding="utf-8")
    some = [text for text, expected in cases[::37] if expected][:12]
    mixed = "\n\n".join(f"{text}\n{prose[n * 200 : n * 200 + 200]}" for n, text in enumerate(some))
    log = "INFO 2026-11-15T10:15:30.123Z pid=12345 GET /v1/models?id=8812 200 in 12 ms\n" * 60
    return {
        "prose_4k": prose[:4096],
        "code_4k": code[:4096],
        "log_4k": log[:4096],
        "twelve_samples_4k": (mixed + prose)[:4096],
    }


HOSTILE = {
    "digits": "1",
    "groups_of_digits": "1234 ",
    "cards": "4111 1111 1111 1111 ",
    "telephone_numbers": "415-555-0132 ",
    "dots": "1.",
    "at_signs": "a@a.",
    "addresses": "a@b.de ",
    "letters": "A",
    "dashes": "-",
    "key_headers": "-----BEGIN " + "PRIVATE KEY-----\n",
    "base64": "eyJhbGciOiJub25lIn0.a.b ",
    "assignments": "password=",
    "colons": "2001:",
    "above_ascii": "é@é.",
}


def hostile() -> dict[str, dict[str, float]]:
    """A million characters of what stalls scanners, and how time grows from an eighth of it."""
    found = {}
    for name, unit in HOSTILE.items():
        text = unit * (1_000_000 // len(unit))
        eighth = times(lambda text=text: detect(text[: len(text) // 8]), 3)["p50_us"] / 1000
        whole = times(lambda text=text: detect(text), 3)["p50_us"] / 1000
        found[name] = {"ms": whole, "times_an_eighth": whole / eighth}
    return found


def peers(asked: dict[str, Any]) -> dict[str, Any]:
    ensure_peers()
    done = subprocess.run(
        [str(PEER_PYTHON), str(HERE / "detection_peers.py")],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(done.stdout)


def ensure_peers() -> None:
    """Build the peers' environment, once; the only step that needs a network."""
    mark = PEERS / ".complete"
    if mark.exists() and mark.stat().st_mtime >= REQUIREMENTS.stat().st_mtime:
        return
    subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    pip = [str(PEER_PYTHON), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--no-deps", "-r", str(REQUIREMENTS)], check=True)
    mark.touch()


def plot(found: dict[str, Any], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6))
    for axis, peer in zip(axes, ("presidio", "detect_secrets"), strict=True):
        rows = found[peer]["kinds"]
        for shift, who in ((0.2, "ours"), (-0.2, "peer")):
            places = [place + shift for place in range(len(rows))]
            axis.barh(places, [row[who]["recall"] for row in rows.values()], 0.38, label=who)
        axis.set_yticks(range(len(rows)), rows)
        axis.set(xlim=(0, 1), xlabel="recall", title=f"peer: {peer}")
        axis.invert_yaxis()
        axis.legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def speed(cases, texts: dict[str, str], answer: dict[str, Any]) -> dict[str, Any]:
    own = {name: times(lambda text=text: detect(text), 400) for name, text in texts.items()}
    whole = times(lambda: [detect(text) for text, _ in cases], 5)["p50_us"]
    own["a_sample"] = {"p50_us": whole / len(cases)}
    return {
        "ours": own,
        **{
            f"{peer}_times_ours": {
                name: answer[peer]["speed_us"][name] / own[name]["p50_us"] for name in own
            }
            for peer in ("presidio", "detect_secrets")
        },
    }


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    written = corpus()
    exactly = [ours(text) for text, _ in written]
    cases = elsewhere(written)
    own = [ours(text) for text, _ in cases]
    texts = speed_texts(cases)
    apart = corpus(("held_out",))
    asked = [text for text, _ in [*cases, *apart]]
    answer = peers({"texts": asked, "speed": texts, "rounds": 15})
    presidio = answer["presidio"]["found"]
    threshold, against_presidio = best_threshold(cases, own, presidio[: len(cases)])
    other = [
        [(kind, value) for kind, value, _ in each]
        for each in answer["detect_secrets"]["found"][: len(cases)]
    ]
    found = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "detector": DETECTOR,
            "samples": sum(1 for _, expected in cases if expected),
            "look_alikes": sum(1 for _, expected in cases if not expected),
            "peers": answer["versions"],
            "note": "shared, noisy cores; our own corpus, on which our detector was also tuned;"
            " a peer is compared on the kinds it claims, presidio at its best threshold",
        },
        "ours": {kind.name: exact(written, exactly, kind.name) for kind in KINDS},
        "held_out": held_out(
            apart, [ours(text) for text, _ in apart], presidio[len(cases) :], threshold
        ),
        "presidio": {"threshold": threshold, "kinds": against_presidio},
        "detect_secrets": {
            "kinds": compare_kinds(cases, own, other, SECRETS),
            "any_secret": {
                "ours": any_secret(cases, [_secrets(each) for each in own]),
                "peer": any_secret(cases, other),
            },
        },
        "speed": speed(cases, texts, answer),
        "hostile_1_000_000_chars": hostile(),
    }
    rounded = round_figures(found)
    (RESULTS / "detection.json").write_text(json.dumps(rounded, indent=2) + "\n")
    plot(found, RESULTS / "detection.svg")
    print(json.dumps(rounded, indent=2))


def _secrets(finds: Finds) -> Finds:
    names = {kind.name for kind in KINDS if kind.group == "secret"}
    return [find for find in finds if find[0] in names]


if __name__ == "__main__":
    main()
