"""An event loop in simulated time, and connections between such loops: no socket is opened."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.threads import SCHEDULER, SimThread

WINDOW_BYTES = 256 * 1024
"""How much may be on its way before the writer is told to pause."""


class _Selector:
    """Waits in simulated time for what an event loop waits for."""

    def __init__(self) -> None:
        self._is_called = False
        self._thread: SimThread | None = None

    def select(self, timeout: float | None) -> list[Any]:
        scheduler = SCHEDULER.current
        if self._is_called or (timeout is not None and timeout <= 0):
            scheduler.maybe_pause()
        else:
            self._thread = scheduler.current_thread
            scheduler.wait(timeout)
            self._thread = None
        self._is_called = False
        return []

    def call(self) -> None:
        self._is_called = True
        if self._thread is not None:
            SCHEDULER.current.wake(self._thread)


class SimLoop(asyncio.BaseEventLoop):
    """An event loop of a simulated process."""

    def __init__(self, network: Network, process: str) -> None:
        super().__init__()
        self.network = network
        self.process = process
        self._selector = _Selector()
        self._clock_resolution = 1e-6

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None:
        self._selector.call()

    def add_signal_handler(self, *_anything: Any) -> None: ...

    def deliver(self, when: float, call: Callable[..., object], *args: Any) -> None:
        """Have something done in this loop at a time; from any loop."""
        if not self.is_closed():
            self.call_at(when, call, *args)
            self._selector.call()

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], *, sock: Any, **_settings: Any
    ) -> SimServer:
        return self.network.listen(self, sock.port, protocol_factory)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_settings: Any
    ) -> tuple[Any, Any]:
        await asyncio.sleep(self.network.latency())
        server = self.network.servers.get(port)
        if server is None or self.network.is_cut(port):
            self.network.refused += 1
            raise ConnectionRefusedError(111, "connection refused")
        protocol = protocol_factory()
        here, there = SimTransport(self, protocol, port), SimTransport(server.loop, None, port)
        here.peer, there.peer = there, here
        self.network.transports += [here, there]
        server.loop.deliver(self.time() + self.network.latency(), there.accept, server.factory)
        protocol.connection_made(here)
        return here, protocol


class SimSocket:
    """Stands for a socket that listens, or for that of a connection."""

    def __init__(self, port: int) -> None:
        self.port = port

    def dup(self) -> SimSocket:
        return self

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def setsockopt(self, *_anything: Any) -> None: ...

    def close(self) -> None: ...


class SimServer:
    """A listening port."""

    def __init__(self, network: Network, loop: SimLoop, port: int, factory: Any) -> None:
        self._network = network
        self.loop = loop
        self.port = port
        self.factory = factory

    def close(self) -> None:
        if self._network.servers.get(self.port) is self:
            del self._network.servers[self.port]

    async def wait_closed(self) -> None: ...

    def get_loop(self) -> SimLoop:
        return self.loop


class Network:
    """What lies between the processes of a life: late, in pieces, sometimes cut."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"network {seed}")
        self.servers: dict[int, SimServer] = {}
        self.transports: list[SimTransport] = []
        self.cut: set[int] = set()
        self.slowest_s = 0.002
        self.refused = 0
        self.pieces = 0.1

    def latency(self) -> float:
        return self._chance.uniform(0.00005, self.slowest_s)

    def listen(self, loop: SimLoop, port: int, factory: Any) -> SimServer:
        server = self.servers.get(port)
        if server is None or server.loop is not loop:
            server = self.servers[port] = SimServer(self, loop, port, factory)
        return server

    def is_cut(self, port: int) -> bool:
        return port in self.cut

    def in_pieces(self, data: bytes) -> list[bytes]:
        """Cut bytes where no one expects it, now and then."""
        if len(data) < 2 or self._chance.random() >= self.pieces:
            return [data]
        at = self._chance.randrange(1, len(data))
        return [data[:at], data[at:]]

    def drop_process(self, process: str) -> None:
        """Close what a process held, as the system does when it is killed."""
        for port, server in [*self.servers.items()]:
            if server.loop.process == process:
                del self.servers[port]
        for each in [*self.transports]:
            if each.loop.process == process and not each.is_over:
                each.is_over = True
                each.tell_peer(None, is_reset=True)
        self.tidy()

    def tidy(self) -> None:
        self.transports = [each for each in self.transports if not each.is_over]

    def open_of(self, process: str, port: int | None = None) -> int:
        """Count the open ends of a process, of connections to one port."""
        return sum(
            each.loop.process == process and not each.is_over and port in (None, each.port)
            for each in self.transports
        )


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: SimLoop, protocol: Any, port: int) -> None:
        super().__init__()
        self.loop = loop
        self.port = port
        self.peer: SimTransport
        self.is_over = False
        self._protocol = protocol
        self._is_closing = False
        self._has_ended = False
        self._reads = True
        self._coming: deque[bytes | None] = deque()
        self._arrives = 0.0
        self._on_the_way = 0
        self._is_paused = False

    def accept(self, factory: Callable[[], Any]) -> None:
        if not self.is_over:
            self._protocol = factory()
            self._protocol.connection_made(self)
            self._read()

    # What protocols ask for.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in ("peername", "sockname"):
            return ("127.0.0.1", self.port)
        return SimSocket(self.port) if name == "socket" else default

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._reads

    def get_write_buffer_size(self) -> int:
        return max(0, self._on_the_way - WINDOW_BYTES)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, WINDOW_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        whole = bytes(data)
        if self._is_closing or not whole or self._has_ended:
            return
        for piece in self.loop.network.in_pieces(whole):
            self._on_the_way += len(piece)
            self._send(piece)
        if self._on_the_way > WINDOW_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def write_eof(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._send(None)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._has_ended:
                self._has_ended = True
                self._send(None)
            self.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self.is_over and not (self._is_closing and self._has_ended):
            self._is_closing = True
            self.tell_peer(None, is_reset=True)
            self.loop.call_soon(self._lose, None)

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self.loop.call_soon(self._read)

    # What happens on the way.

    def _send(self, data: bytes | None) -> None:
        network = self.loop.network
        self._arrives = max(self._arrives + 1e-6, self.loop.time() + network.latency())
        self.peer.loop.deliver(self._arrives, self.peer.on_bytes, data)

    def tell_peer(self, error: Exception | None, *, is_reset: bool) -> None:
        gone = ConnectionResetError(104, "connection reset by peer") if is_reset else error
        when = max(self._arrives, SCHEDULER.current.now_ns / 1e9 + self.loop.network.latency())
        self._arrives = when + 1e-6
        self.peer.loop.deliver(self._arrives, self.peer.on_reset, gone)

    def on_bytes(self, data: bytes | None) -> None:
        if self.is_over:
            return
        self._coming.append(data)
        self._read()

    def on_reset(self, error: Exception | None) -> None:
        self._is_closing = True
        self._lose(error)

    def _read(self) -> None:
        while self._coming and self._reads and not self.is_over and self._protocol is not None:
            data = self._coming.popleft()
            if data is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            self.peer.loop.deliver(self.loop.time() + 1e-6, self.peer.on_read, len(data))
            if not self._is_closing:
                self._protocol.data_received(data)

    def on_read(self, count: int) -> None:
        self._on_the_way -= count
        if self._is_paused and self._on_the_way <= WINDOW_BYTES // 4 and not self.is_over:
            self._is_paused = False
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            if self._protocol is not None:
                self._protocol.connection_lost(error)
