"""A dated catalogue of the abilities of models, beside the price table, frozen at release time.

A value that is absent is unknown: neither true nor false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict, fields, replace

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import ContentId, Form, content_id
from pointsman.kernel.literal import AtLeastOne
from pointsman.turns.registry.prices import without_date, without_version

Ability = Literal[
    "images", "prompt_caching", "streaming", "structured_output", "system_prompt", "thinking",
    "tools",
]  # fmt: skip


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """The abilities of a model. None is unknown and rejects no turn."""

    max_context_tokens: AtLeastOne | None = None
    max_output_tokens: AtLeastOne | None = None
    supports_images: bool | None = None
    supports_tools: bool | None = None
    supports_system_prompt: bool | None = None
    supports_structured_output: bool | None = None
    supports_streaming: bool | None = None
    supports_thinking: bool | None = None
    supports_prompt_caching: bool | None = None


NOTHING_KNOWN: Final = Capabilities()
CAPABILITY_NAMES: Final = tuple(each.name for each in fields(Capabilities))


class AlikeModels(Struct, frozen=True, forbid_unknown_fields=True):
    """Models of which the same is known, by provider."""

    can: tuple[Ability, ...]
    cannot: tuple[Ability, ...]
    context: int | None
    output: int | None
    names: dict[str, tuple[str, ...]]


class CatalogueSheet(Struct, frozen=True, forbid_unknown_fields=True):
    """The catalogue as it is written."""

    schema_version: Literal[1]
    date: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    sources: tuple[str, ...]
    licences: tuple[str, ...]
    notes: tuple[str, ...]
    provider_names: dict[str, str]
    models: tuple[AlikeModels, ...]


CATALOGUE_FORM = Form(CatalogueSheet)


class Catalogue:
    """A catalogue that can be asked. Its text is decoded when the first model is looked up."""

    def __init__(self, text: bytes) -> None:
        self._canonical = text.replace(b"\n", b"")
        self.id: ContentId = content_id(self._canonical)

    @cached_property
    def sheet(self) -> CatalogueSheet:
        """The catalogue as it is written."""
        # `id` names these very bytes: written anew, they could only prove the same once more.
        return CATALOGUE_FORM.read(self._canonical)

    def capabilities(self, model: str) -> Capabilities:
        """Return the known capabilities of a model, written `provider:name`.

        Gaps of a reseller's `vendor/name` are filled from that vendor's model.
        """
        provider, _, name = model.partition(":")
        # Lower case beyond ASCII is not the same in every Python version.
        name = name.lower() if name.isascii() else ""
        vendor, _, rest = name.partition("/")
        return merge_capabilities((self._of(provider, name), self._of(vendor, rest)))

    def _of(self, provider: str, name: str) -> Capabilities:
        known = self._names.get(self.sheet.provider_names.get(provider, provider), {})
        spellings = dict.fromkeys((name, without_version(name), without_date(name)))
        alike = next((known[each] for each in spellings if each in known), None)
        return NOTHING_KNOWN if alike is None else _capabilities_of(alike)

    @cached_property
    def _names(self) -> dict[str, dict[str, AlikeModels]]:
        names: dict[str, dict[str, AlikeModels]] = {}
        for alike in self.sheet.models:
            for provider, listed in alike.names.items():
                own = names.setdefault(provider, {})
                for name in listed:
                    if own.setdefault(name, alike) is not alike:
                        twice = f"`{provider}:{name}` stands twice"
                        raise IntegrityFailure(f"catalogue of {self.sheet.date}: {twice}")
        return names


def merge_capabilities(layers: Iterable[Capabilities]) -> Capabilities:
    """Return for each capability the first value that is known."""
    found: dict[str, object] = {}
    for layer in layers:
        found |= {name: value for name, value in known_values(layer) if name not in found}
    return replace(NOTHING_KNOWN, **found)


def known_values(capabilities: Capabilities) -> Iterator[tuple[str, object]]:
    """Return the capabilities that are known, by name."""
    return ((name, value) for name, value in asdict(capabilities).items() if value is not None)


def _capabilities_of(alike: AlikeModels) -> Capabilities:
    abilities = {f"supports_{name}": True for name in alike.can}
    abilities |= {f"supports_{name}": False for name in alike.cannot}
    return Capabilities(alike.context, alike.output, **abilities)
