"""The JSON Schema that is published for a type."""

from decimal import Decimal

import msgspec
from tests.unit.closed_types import Policy

from pointsman.kernel.schema import json_schema, json_schemas


def test_published_schema_names_its_dialect_and_closes_every_struct():
    schema = json_schema(Policy)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    structs = [each for each in schema["$defs"].values() if "properties" in each]
    assert len(structs) == 4
    assert all(each["additionalProperties"] is False for each in structs)


def test_published_schema_closes_structs_that_were_left_open():
    class Open(msgspec.Struct):
        a: int

    assert json_schema(Open)["$defs"]["Open"]["additionalProperties"] is False


def test_published_schema_holds_no_keywords_of_ours():
    assert b'"x-' not in msgspec.json.encode(json_schema(Policy))


def test_published_decimals_are_numbers_or_their_text():
    share = json_schema(Policy)["$defs"]["Policy"]["properties"]["share"]
    assert share["type"] == ["number", "string"]
    assert share["minimum"] == 0


def test_schemas_of_several_types_share_what_they_name():
    class Inner(msgspec.Struct, forbid_unknown_fields=True):
        price: Decimal

    class Outer(msgspec.Struct):
        inner: Inner

    found, shared = json_schemas([Outer, Inner], "#/shared/{name}")
    assert found == {
        Outer: {"$ref": "#/shared/Outer"},
        Inner: {"$ref": "#/shared/Inner"},
    }
    assert shared["Outer"]["properties"]["inner"] == {"$ref": "#/shared/Inner"}
    assert "additionalProperties" not in shared["Outer"]
    assert shared["Inner"]["additionalProperties"] is False
    assert shared["Inner"]["properties"]["price"]["type"] == ["number", "string"]
