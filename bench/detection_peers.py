"""Runs inside `.venv-bench-detection`: what presidio and bc-detect-secrets find in the same texts.

Reads texts as JSON from stdin and writes findings and times as JSON to stdout. Both run as shipped:
presidio with a blank spaCy pipeline and every recogniser of its own for the kinds compared, in one
language; detect-secrets with all its plugins and filters, on files, as it is meant to be used (its
scan of single strings calls nearly every word a secret).
"""

import json
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import count
from pathlib import Path

import spacy
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry, predefined_recognizers
from presidio_analyzer.nlp_engine import SpacyNlpEngine

RECOGNISERS = (
    *(
        "CreditCard",
        "Email",
        "Iban",
        "Ip",
        "Phone",
        "UsSsn",
        "Nhs",
        "EsNif",
        "EsNie",
        "ItFiscalCode",
    ),
    *("UsPassport", "UkPassport", "ItPassport", "EsPassport", "DePassport", "UsLicense"),
    *("UkDrivingLicence", "ItDriverLicense", "DeFuehrerschein", "Date", "UsBank", "AbaRouting"),
    *("UkNino", "AuTfn", "KrRrn"),
    *("PlPesel", "FiPersonalIdentityCode", "InAadhaar", "CaSin", "SePersonnummer", "DeTaxId"),
)


class BlankEngine(SpacyNlpEngine):
    def __init__(self) -> None:
        super().__init__()
        self.nlp = {"en": spacy.blank("en")}


def presidio():
    registry = RecognizerRegistry()
    for name in RECOGNISERS:
        kind = getattr(predefined_recognizers, f"{name}Recognizer")
        registry.add_recognizer(kind(supported_language="en"))
    engine = AnalyzerEngine(registry=registry, nlp_engine=BlankEngine())

    def find(text: str) -> list[tuple[str, str, float]]:
        found = engine.analyze(text=text, language="en")
        return [(each.entity_type, text[each.start : each.end], each.score) for each in found]

    return find


def detect_secrets(folder: Path):
    numbers = count()

    def find(text: str) -> list[tuple[str, str, float]]:
        # A new name each time: one of its plugins remembers the files it has seen.
        path = folder / f"{next(numbers)}.txt"
        path.write_text(text, encoding="utf-8")
        return [(each.type, each.secret_value or text, 1.0) for each in scan_file(str(path))]

    return find


def median_us(work, text: str, rounds: int) -> float:
    found = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work(text)
        found.append(time.perf_counter_ns() - start)
    return sorted(found)[rounds // 2] / 1000


def measure_finder(find, asked) -> dict:
    find(asked["texts"][0])
    start = time.perf_counter_ns()
    found = [find(text) for text in asked["texts"]]
    taken = time.perf_counter_ns() - start
    speed = {name: median_us(find, text, asked["rounds"]) for name, text in asked["speed"].items()}
    return {"found": found, "speed_us": speed | {"a_sample": taken / 1000 / len(found)}}


def main() -> None:
    asked = json.load(sys.stdin)
    with default_settings(), tempfile.TemporaryDirectory() as folder:
        answer = {
            "presidio": measure_finder(presidio(), asked),
            "detect_secrets": measure_finder(detect_secrets(Path(folder)), asked),
            "versions": {
                name: version(name) for name in ("presidio-analyzer", "bc-detect-secrets", "spacy")
            },
        }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
