"""A listener between a writer and PostgreSQL that loses answers on their way back."""

from __future__ import annotations

import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

PORT_FILE = ".s.PGSQL.5432"


class LossyWire:
    """Passes everything on, until `lose_next_answer`: then one answer is lost and the line cut."""

    def __init__(self, server: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pointsman-wire-")
        self._server = server / PORT_FILE
        self._losing = threading.Event()
        self.lost = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._folder.name}/{PORT_FILE}")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Waking a thread that accepts takes more than closing its socket.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._folder.cleanup()

    def url(self, direct: str) -> str:
        """Give the address of a database on this side of the wire."""
        return f"{direct.partition('?')[0]}?host={self._folder.name}"

    def lose_next_answer(self) -> None:
        """Lose the next answer of the server, once what was asked has been done."""
        self._losing.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            for target, ends in ((self._asked, (client, server)), (self._told, (server, client))):
                threading.Thread(target=target, args=ends, daemon=True).start()

    def _asked(self, client: socket.socket, server: socket.socket) -> None:
        while data := _received(client):
            server.sendall(data)
        _cut(server)

    def _told(self, server: socket.socket, client: socket.socket) -> None:
        while data := _received(server):
            if self._losing.is_set():
                self._losing.clear()
                self.lost.set()
                break
            client.sendall(data)
        _cut(server)
        _cut(client)


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _cut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        end.close()
