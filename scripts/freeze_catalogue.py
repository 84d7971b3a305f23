"""Write src/pointsman/turns/price_table/catalogue.json: what models can do, from public data.

A maintainer runs it before a release. Capabilities come from the data file that a `litellm` wheel
carries, which is read and never imported; context windows that it lacks come from the package
`genai-prices`, by the names of our price table. The licences stand beside the result.

    python scripts/freeze_catalogue.py --date 2026-11-18 --wheel litellm.whl
"""

import argparse
import json
import zipfile
from collections.abc import Iterator
from datetime import date
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import msgspec

from pointsman.storage.policies.price_table import load_price_table
from pointsman.turns.registry.catalogue import (
    CATALOGUE_FORM,
    AlikeModels,
    Capabilities,
    Catalogue,
    CatalogueSheet,
    merge_capabilities,
)

TARGET = Path(__file__).resolve().parents[1] / "src/pointsman/turns/price_table/catalogue.json"
DATA = "litellm/model_prices_and_context_window_backup.json"

CONVERSING = {"chat", "completion", "responses"}
ABILITIES = {
    "images": "supports_vision",
    "prompt_caching": "supports_prompt_caching",
    "streaming": "supports_native_streaming",
    "structured_output": "supports_response_schema",
    "system_prompt": "supports_system_messages",
    "thinking": "supports_reasoning",
    "tools": "supports_function_calling",
}
# The source's names of providers, as ours are; what is sold in parts is one provider here.
PROVIDERS = {
    "azure_ai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "bedrock_mantle": "aws",
    "cohere_chat": "cohere",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "github_copilot": "github-copilot",
    "moonshot": "moonshotai",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "xai": "x-ai",
}
SKIPPED = {
    "ollama": "what a local server can do depends on how it was started",
    "chatgpt": "a subscription, not an API",
    "microsoft_365_copilot": "a subscription, not an API",
}
SPELLINGS = {"vertex_ai": "google", "fireworks-ai": "fireworks", "grok": "x-ai"}
NOTES = (
    "what is in neither `can` nor `cannot` is unknown; null is unknown",
    "context is the longest input, or the whole window where the source has no other figure",
    "embedding models, local servers, and what a provider charges are not in this table",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Freeze what models can do on a date.")
    parser.add_argument("--date", required=True, type=date.fromisoformat)
    parser.add_argument("--wheel", required=True, type=Path)
    given = parser.parse_args()
    with zipfile.ZipFile(given.wheel) as wheel:
        rows = json.loads(wheel.read(DATA))
    version = given.wheel.name.split("-")[1]
    found = dict(models_of(rows))
    for name, window in windows():
        if "embed" in name[1]:
            # The input of many texts is no conversation that has to fit one window.
            continue
        facts = found.get(name, Capabilities())
        found[name] = merge_capabilities((facts, Capabilities(max_context_tokens=window)))
    prices = load_price_table().sheet
    table = CatalogueSheet(
        schema_version=1,
        date=given.date.isoformat(),
        sources=(f"litellm {version}: {DATA}", f"genai-prices {metadata.version('genai-prices')}"),
        licences=("MIT, see LICENSE.litellm", "MIT, see LICENSE.genai-prices"),
        notes=NOTES,
        provider_names=dict(sorted((prices.provider_names | SPELLINGS).items())),
        models=tuple(alike(found)),
    )
    text = CATALOGUE_FORM.encode(table).replace(b'{"can":', b'\n{"can":') + b"\n"
    known = Catalogue(text)
    known.capabilities("openai:gpt-5.2")
    TARGET.write_bytes(text)
    print(f"{len(found)} models, {len(table.models)} lines, {len(text)} bytes, {known.id}")


def models_of(rows: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Capabilities]]:
    """Return what is known of each model; where rows of one name differ, what they agree on."""
    found: dict[tuple[str, str], list[Capabilities]] = {}
    for key, row in sorted(rows.items()):
        provider = str(row.get("litellm_provider", ""))
        if row.get("mode") not in CONVERSING or provider in SKIPPED:
            continue
        name = bare_name(key, provider)
        facts = capabilities(row)
        if name and facts != Capabilities():
            found.setdefault((our_name(provider), name), []).append(facts)
    for name, listed in found.items():
        yield name, common(listed)


def our_name(provider: str) -> str:
    if provider.startswith("vertex_ai"):
        return "google"
    return PROVIDERS.get(provider, provider)


def bare_name(key: str, provider: str) -> str:
    """Return a model's name without its provider; empty where the key names a region, too."""
    first = provider.split("-", maxsplit=1)[0] if provider.startswith("vertex_ai") else provider
    name = key.lower()
    for prefix in (f"{first}/", f"{our_name(provider)}/", "bedrock/", "cohere/"):
        name = name.removeprefix(prefix)
    has_region = our_name(provider) in {"aws", "azure"} and "/" in name
    return name if name.isascii() and not has_region else ""


def capabilities(row: dict[str, Any]) -> Capabilities:
    context = row.get("max_input_tokens")
    output = row.get("max_output_tokens")
    abilities = {ability: row.get(field) for ability, field in ABILITIES.items()}
    modalities = row.get("supported_modalities")
    if abilities["images"] is None and modalities:
        abilities["images"] = "image" in modalities
    return Capabilities(
        max_context_tokens=context if isinstance(context, int) and context > 0 else None,
        max_output_tokens=output if isinstance(output, int) and output > 0 else None,
        **{f"supports_{ability}": value for ability, value in abilities.items()},
    )


def common(listed: list[Capabilities]) -> Capabilities:
    """Return what rows agree on; of different sizes the smaller."""
    merged: dict[str, Any] = {}
    for name in Capabilities.__struct_fields__:
        values = {getattr(each, name) for each in listed} - {None}
        if name.startswith("max_"):
            merged[name] = min(values, default=None)
        else:
            merged[name] = values.pop() if len(values) == 1 else None
    return Capabilities(**merged)


def windows() -> Iterator[tuple[tuple[str, str], int]]:
    """Return the context windows of priced models, by each name the price table knows."""
    providers = import_module("genai_prices.data").providers
    known = {f"{p.id}:{m.id}": m.context_window for p in providers for m in p.models}
    for line in load_price_table().sheet.models:
        window, provider = known.get(line.model), line.model.partition(":")[0]
        if window and provider.partition("_")[0] != "huggingface":
            yield from (((provider, name), window) for name in line.names + line.dated_names)


def alike(found: dict[tuple[str, str], Capabilities]) -> Iterator[AlikeModels]:
    """Return the models of which the same is known on one line."""
    lines: dict[bytes, dict[str, list[str]]] = {}
    for (provider, name), facts in sorted(found.items()):
        by_provider = lines.setdefault(msgspec.json.encode(facts), {})
        by_provider.setdefault(provider, []).append(name)
    for encoded, names in lines.items():
        facts = msgspec.json.decode(encoded, type=Capabilities)
        stated = {ability: getattr(facts, f"supports_{ability}") for ability in ABILITIES}
        yield AlikeModels(
            can=tuple(ability for ability in sorted(stated) if stated[ability]),
            cannot=tuple(ability for ability in sorted(stated) if stated[ability] is False),
            context=facts.max_context_tokens,
            output=facts.max_output_tokens,
            names={provider: tuple(listed) for provider, listed in names.items()},
        )


if __name__ == "__main__":
    main()
