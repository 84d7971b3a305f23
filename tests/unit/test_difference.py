"""Where two values differ."""

import pytest

from pointsman.kernel.document import Json
from pointsman.kernel.replay import Difference, differences


@pytest.mark.parametrize(
    ("recorded", "found", "rows"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a.b[1]", 2, 3)]),
        ([1], [1, 2], [("[1]", None, 2)]),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, [("a", 1, None), ("c", None, 3)]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        (1, "1", [("$", 1, "1")]),
        ({"a": [1]}, {"a": {"x": 1}}, [("a", [1], {"x": 1})]),
    ],
)
def test_differences_are_listed_field_by_field(
    recorded: Json, found: Json, rows: list[tuple[str, Json, Json]]
) -> None:
    assert differences(recorded, found) == [Difference(*row) for row in rows]
