import json
from decimal import Decimal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import DocumentError
from pointsman.kernel import yaml_text
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json
from pointsman.kernel.yaml_text import read_yaml

EXAMPLES = settings(derandomize=True, max_examples=150, deadline=None, database=None)
LARGEST = 2**53 - 1

scalars = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
fragments = st.sampled_from(
    [
        "a",
        "b: ",
        "- ",
        "\n",
        "\n  ",
        " ",
        ": ",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "'x'",
        '"y"',
        "#c",
        "|\n",
        ">-\n",
        "\t",
        "? ",
        "&a ",
        "*a ",
        "!t ",
        "---\n",
        "...",
        "%",
        "é",
        "1",
        "\r\n",
        "'",
        '"',
        "\\u00e9",
        "\\ud800",
        "<<: ",
        "😀",
        "0",
        ".",
        "e",
        "NaN",
        "true",
        "null",
        ",",
        "\x00",
        "\x7f",
        "\\",
        "/",
        "-",
    ]
)
texts = st.lists(fragments, max_size=14).map("".join)


def outcome(reader, text):
    try:
        document = reader(text, "s", DocumentLimits(depth=8, nodes=60))
    except DocumentError as error:
        return error.problems
    return document.value, document.values, document.keys


@EXAMPLES
@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_any_json_value_written_by_the_standard_library_reads_back(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_json(text.encode(), "s").value == value


@EXAMPLES
@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=9
    )
)
def test_any_decimal_reads_back_exactly(number):
    text = f"[{number:f}]".encode()
    assert read_json(text, "s").value == [number]
    assert read_yaml(text, "s").value == [number]
    assert isinstance(read_yaml(text, "s").value[0], Decimal)


@pytest.mark.req(96)
@EXAMPLES
@given(values)
def test_yaml_reads_json_text_as_json_does(value):
    text = json.dumps(value).encode()
    as_yaml, as_json = read_yaml(text, "s"), read_json(text, "s")
    assert repr(as_yaml.value) == repr(as_json.value)
    assert as_yaml.values == as_json.values
    assert as_yaml.keys == as_json.keys


@pytest.mark.parametrize("reader", [read_json, read_yaml])
@EXAMPLES
@given(
    text=st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_random_bytes_are_read_or_refused_with_problems(reader, text):
    found = outcome(reader, text)
    assert found == outcome(reader, text)
    assert found


@pytest.mark.parametrize("reader", [read_json, read_yaml])
@EXAMPLES
@given(text=texts)
def test_random_fragments_are_read_or_refused_with_problems_in_order(reader, text):
    found = outcome(reader, text.encode())
    if not isinstance(found[-1], dict):
        places = [(each.place.line, each.place.column) for each in found]
        assert places == sorted(places)
        assert min(places) >= (1, 1)


@EXAMPLES
@given(texts)
def test_both_yaml_parsers_give_the_same_values_positions_and_problems(text):
    fast = outcome(read_yaml, text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_text, "FAST_LOADER", yaml.SafeLoader)
        assert outcome(read_yaml, text.encode()) == fast
