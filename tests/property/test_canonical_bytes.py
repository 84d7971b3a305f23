"""Canonical bytes against an independent implementation of RFC 8785."""

import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.kernel.canonical import MAX_INT, canonical_json
from pointsman.kernel.document import Json

# Strings that begin like a tagged decimal are escaped by `canonical_json`; RFC 8785 knows no tags.
TEXT = st.text(max_size=30).filter(lambda text: text[:2] not in {"d:", "s:"})
SCALARS = st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=40,
)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(VALUES)
def test_canonical_bytes_equal_rfc_8785(value: Json) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)
