"""Chat completions: the fields of a request as one service names them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pointsman.providers.dialects.spans import unique


def with_field_names(body: bytes, renames: Mapping[str, str], leaves_out: Collection[str]) -> bytes:
    """Return a request with these fields renamed and left out; the same body where it has none.

    Where a field stands under both names, the service's own counts.
    """
    # Searching the bytes costs next to nothing; most requests name none of them.
    if not any(f'"{name}"'.encode() in body for name in (*renames, *leaves_out)):
        return body
    values = unique(body)
    if values.keys().isdisjoint((*renames, *leaves_out)):
        return body
    kept = {
        renames.get(name, name): value
        for name, value in values.items()
        if name not in leaves_out and renames.get(name) not in values
    }
    return msgspec.json.encode(kept)
