"""The servers that tests get are real, empty, and gone when they should be."""

from __future__ import annotations

import os
import socket

import psycopg
import pytest
from tests.servers import PostgresServer, RedisServer

pytestmark = pytest.mark.slow


def test_a_database_is_empty_and_has_pgvector_at_hand(postgres_url: str) -> None:
    """What one test leaves, the next does not see."""
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchone() == (0,)
        connection.execute("CREATE EXTENSION vector")


def test_two_databases_are_two(postgres_server: PostgresServer) -> None:
    """A table in one is not in the other."""
    one, other = postgres_server.fresh(), postgres_server.fresh()
    with psycopg.connect(one) as connection:
        connection.execute("CREATE TABLE here (n int)")
    with psycopg.connect(other) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT * FROM here")
    postgres_server.drop(one)
    postgres_server.drop(other)


def test_what_was_committed_survives_a_kill() -> None:
    """A server that is killed comes back with what it had acknowledged."""
    server = PostgresServer()
    try:
        url = server.fresh()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
    finally:
        server.close()


def test_redis_begins_empty_and_loses_all_when_killed(redis_url: str) -> None:
    """It keeps nothing on disk, and comes back at the same port."""
    server = RedisServer()
    try:
        assert _said(server.port, b"SET a 1\r\n") == b"+OK\r\n"
        assert redis_url != server.url
        server.kill()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=1)
        server.start()
        assert _said(server.port, b"DBSIZE\r\n") == b":0\r\n"
    finally:
        server.close()


def test_a_closed_server_leaves_no_process() -> None:
    """Its process is gone before `close` returns."""
    server = RedisServer()
    process = server._process
    assert process is not None
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def _said(port: int, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(line)
        return connection.recv(100)
