"""Statements of SQLite in PostgreSQL's words."""

import pytest

from pointsman.storage.postgres.connection import spoken, to_driver_marks
from pointsman.storage.sqlite.database import SQL


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT ? + ?", "SELECT %s + %s"),
        ("SELECT :by, :first_day", "SELECT %(by)s, %(first_day)s"),
        ("SELECT 5 % 2, '?:x%'", "SELECT 5 %% 2, '?:x%%'"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', %s"),
        ("SELECT now()::date", "SELECT now()::date"),
        ("SELECT '12:30' WHERE a = :a", "SELECT '12:30' WHERE a = %(a)s"),
    ],
)
def test_marks_for_values_are_the_drivers(sql, said):
    assert to_driver_marks(sql) == said


def test_empty_bytes_are_written_as_postgresql_reads_them():
    assert spoken("SELECT x'', x'00ff'") == r"SELECT '\x'::bytea, '\x00ff'::bytea"


def test_a_block_with_a_text_of_its_own_is_said_so():
    assert "string_agg" in spoken(SQL["chain_hashes"])
    assert spoken(SQL["find_chain"]) == "SELECT id FROM chains WHERE name = %s;"
