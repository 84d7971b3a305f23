"""Networks people have: proxies, authorities and certificates of a company, IPv6, moving names."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.providers.calling import SMALL, run
from tests.unit.providers.pooled import BOTH, message

from pointsman.calls.services import pool_of
from pointsman.errors import InputError
from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.http.proxy import Proxies, proxy_for, read_proxies
from pointsman.providers.port import Deadlines, NotConfigured, UpstreamError
from pointsman.providers.registry.providers import open_providers
from pointsman.storage.policies.settings import read_settings
from pointsman.testing.certificates import TestAuthority
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.turns.registry.login import SecretRef
from pointsman.turns.registry.models import ModelsFile, Provider
from pointsman.turns.registry.upstream import UpstreamOrigin, read_base_url


class ScriptedProxy:
    """A proxy that takes CONNECT and leads every name to one port here."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 yes\r\n\r\n") -> None:
        self.heads: list[bytes] = []
        self._port = port
        self._answer = answer
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> ScriptedProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if b" 200" not in self._answer:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        both = (self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._tasks += [asyncio.ensure_future(each) for each in both]

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()


async def ask(pool: ConnectionPool) -> int:
    ends_at = asyncio.get_running_loop().time() + 5
    answer = await pool.request(message(), Deadlines(connect_s=2), ends_at)
    await answer.read()
    return answer.status


async def nowhere(_host: str, _port: int) -> Sequence[str]:
    raise AssertionError("behind a proxy no name is looked up")


def through_proxy(
    tmp_path: Path, loop: str, *, is_tls: bool, answer: bytes = b"", user: str = "", name: str = ""
) -> tuple[Any, list[bytes]]:
    """Ask twice through a proxy; return the outcomes and the heads that it saw."""
    authority = TestAuthority(tmp_path)

    async def work() -> tuple[Any, list[bytes]]:
        context = authority.server(name or "api.example.com") if is_tls else None
        said = answer or b"HTTP/1.1 200 yes\r\n\r\n"
        async with ScriptedUpstream(tls=context) as upstream:  # noqa: SIM117 - its port is needed
            async with ScriptedProxy(upstream.port, said) as proxy:
                url = f"http://{user}127.0.0.1:{proxy.port}"
                proxies = Proxies(https=("HTTPS_PROXY", url), http=("HTTP_PROXY", url))
                settings = replace(SMALL, ca_file=authority.ca_file, proxies=proxies)
                origin = UpstreamOrigin(is_tls, "api.example.com", 8443)
                pool = ConnectionPool(origin, settings, resolve=nowhere)
                try:
                    found: Any = [await ask(pool), await ask(pool)]
                except UpstreamError as error:
                    found = error
                await pool.close()
                await upstream.wait_for_disconnects()
                return found, proxy.heads

    return run(work, loop)


@BOTH
@pytest.mark.parametrize("is_tls", [False, True])
def test_calls_go_through_a_tunnel_which_is_kept(tmp_path: Path, loop: str, is_tls: bool) -> None:
    found, heads = through_proxy(tmp_path, loop, is_tls=is_tls)
    assert found == [200, 200]
    wanted = b"CONNECT api.example.com:8443 HTTP/1.1\r\nhost: api.example.com:8443\r\n\r\n"
    assert heads == [wanted]


def test_a_proxy_gets_its_own_credentials(tmp_path: Path) -> None:
    found, heads = through_proxy(tmp_path, "asyncio", is_tls=True, user="me:p%40ss@")
    assert found == [200, 200]
    said = b"proxy-authorization: Basic " + base64.b64encode(b"me:p@ss") + b"\r\n"
    assert said in heads[0]


@BOTH
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407"),
        (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", "answered 403"),
        (b"nonsense\r\n\r\n", "gave no answer that can be read"),
        (b"", "broken off"),
    ],
)
def test_a_proxy_that_refuses_is_told_without_its_password(
    tmp_path: Path, loop: str, answer: bytes, words: str
) -> None:
    found, _ = through_proxy(tmp_path, loop, is_tls=True, answer=answer or b" ", user="me:pw-1@")
    assert isinstance(found, UpstreamError)
    assert (found.error_class, found.is_unreached) == ("network", True)
    assert words in found.message
    assert "pw-1" not in repr(found) + found.message


def test_behind_a_proxy_the_certificate_still_names_the_provider(tmp_path: Path) -> None:
    found, _ = through_proxy(tmp_path, "asyncio", is_tls=True, name="other.example.com")
    assert "not accepted" in found.message


ENVIRONMENT = {"HTTPS_PROXY": "http://secure:3128", "http_proxy": "plain:3129"}


@pytest.mark.parametrize(
    ("url", "without", "wanted"),
    [
        ("https://api.openai.com", "", "secure"),
        ("http://models.example.org", "", "plain"),
        ("https://api.openai.com", "*", None),
        ("https://api.openai.com", "openai.com", None),
        ("https://api.openai.com", " .OpenAI.com , x", None),
        ("https://api.openai.com", "*.openai.com", None),
        ("https://notopenai.com", "openai.com", "secure"),
        ("https://api.openai.com:8443", "api.openai.com:443", "secure"),
        ("https://api.openai.com:8443", "api.openai.com:8443", None),
        ("https://10.1.2.3", "10.0.0.0/8", None),
        ("https://11.1.2.3", "10.0.0.0/8,nonsense/9", "secure"),
        ("https://[fd00::1]", "fd00::/8", None),
        ("https://[fd00::1]", "fd00::1", None),
        ("http://127.0.0.1:11434", "", None),
        ("http://localhost:11434", "", None),
        ("http://[::1]:11434", "", None),
    ],
)
def test_the_environment_names_proxies_and_hosts_without(
    url: str, without: str, wanted: str | None
) -> None:
    proxies = read_proxies({**ENVIRONMENT, "NO_PROXY": without})
    found = proxy_for(read_base_url(url)[0], proxies)
    assert (None if found is None else found.host) == wanted
    assert "secure" not in repr(proxies)


def test_small_letters_come_first_and_one_for_all_comes_last() -> None:
    origin = read_base_url("https://a.org")[0]
    both = {"HTTPS_PROXY": "http://large", "https_proxy": "http://small", "ALL_PROXY": "http://all"}
    found = proxy_for(origin, read_proxies(both))
    assert found is not None
    assert (found.host, found.port) == ("small", 80)
    assert proxy_for(origin, read_proxies({"all_proxy": "http://all:1"})) is not None
    assert proxy_for(origin, read_proxies({})) is None


@pytest.mark.parametrize("url", ["socks5://x:1", "https://x", "http://", "http://x:y"])
def test_a_proxy_of_another_kind_is_told(url: str) -> None:
    with pytest.raises(NotConfigured, match="HTTPS_PROXY names no proxy by `http://`"):
        proxy_for(read_base_url("https://a.org")[0], read_proxies({"HTTPS_PROXY": url}))


def with_settings(origin: UpstreamOrigin, settings: PoolSettings, context: ssl.SSLContext) -> Any:
    async def work() -> Any:
        async with ScriptedUpstream(tls=context) as upstream:
            pool = ConnectionPool(replace(origin, port=upstream.port), settings)
            try:
                return await ask(pool)
            except UpstreamError as error:
                return error
            finally:
                await pool.close()
                await upstream.wait_for_disconnects()

    return run(work)


def test_a_provider_is_shown_our_certificate(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    context = authority.server()
    authority.server()
    context.load_verify_locations(authority.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    origin = UpstreamOrigin(True, "127.0.0.1", 1)
    shown = replace(SMALL, ca_file=authority.ca_file, certificate=tmp_path / "server-2.pem")
    assert with_settings(origin, shown, context) == 200
    silent = replace(shown, certificate=None)
    assert isinstance(with_settings(origin, silent, context), UpstreamError)


def test_a_certificate_that_cannot_be_read_is_told_at_the_call(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    settings = replace(SMALL, ca_file=authority.ca_file, certificate=tmp_path / "none.pem")
    error = with_settings(UpstreamOrigin(True, "127.0.0.1", 1), settings, authority.server())
    assert isinstance(error, NotConfigured)
    assert "none.pem" in error.message


def test_authorities_of_a_company_stand_beside_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, company = tmp_path / "system", tmp_path / "company"
    system.mkdir()
    company.mkdir()
    theirs, ours = TestAuthority(system), TestAuthority(company)
    monkeypatch.setenv("SSL_CERT_FILE", str(theirs.ca_file))
    settings = replace(SMALL, ca_file=ours.ca_file)
    origin = UpstreamOrigin(True, "127.0.0.1", 1)
    assert with_settings(origin, settings, ours.server()) == 200
    assert with_settings(origin, settings, theirs.server()) == 200


def test_a_connection_is_used_no_longer_than_its_age_so_that_a_moved_name_is_found() -> None:
    async def work() -> list[int]:
        async with ScriptedUpstream() as upstream:
            asked: list[str] = []

            async def resolve(host: str, _port: int) -> Sequence[str]:
                asked.append(host)
                return ["127.0.0.1"]

            origin = UpstreamOrigin(False, "moving.example.com", upstream.port)
            counts = []
            for age in (600.0, -1.0):
                asked.clear()
                settings = replace(SMALL, allow_private=True, max_age_s=age)
                pool = ConnectionPool(origin, settings, resolve=resolve)
                for _ in range(3):
                    await ask(pool)
                counts.append(len(asked))
                await pool.close()
            await upstream.wait_for_disconnects()
            return counts

    assert run(work) == [1, 3]


def test_ipv6_is_called_by_its_address() -> None:
    async def work() -> tuple[int, bytes]:
        heads: list[bytes] = []
        closed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await reader.read()
            writer.close()
            closed.set()

        try:
            server = await asyncio.start_server(serve, "::1", 0)
        except OSError:
            pytest.skip("no IPv6 here")
        port = server.sockets[0].getsockname()[1]
        origin, _ = read_base_url(f"http://[::1]:{port}/v1")
        assert origin.host_header == f"[::1]:{port}"
        pool = ConnectionPool(origin, SMALL)
        status = await ask(pool)
        await pool.close()
        await closed.wait()
        server.close()
        return status, heads[0]

    assert run(work)[0] == 200


def test_settings_and_environment_make_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://secure:3128")
    given = read_settings(b"upstream: {ca_file: ca.pem, max_age_s: 5}", "pointsman.yaml")
    pool = pool_of(given, tmp_path)
    assert pool.proxies.https == ("https_proxy", "http://secure:3128")
    assert (pool.ca_file, pool.max_age_s) == (tmp_path / "ca.pem", 5)
    none = read_settings(b"upstream: {proxy: none}", "pointsman.yaml")
    assert pool_of(none, tmp_path).proxies == Proxies()
    assert pool_of(none, tmp_path).ca_file is None


def test_a_provider_is_opened_with_its_certificate_but_never_with_a_key_of_the_home(
    tmp_path: Path,
) -> None:
    def opened(file: str) -> ConnectionPool:
        provider = Provider("openai", client_certificate=SecretRef(file=file))
        found = open_providers(ModelsFile(1, {"a": provider}), tmp_path).by_name("a")
        pool: ConnectionPool = found._pool  # type: ignore[attr-defined]
        return pool

    (tmp_path / "keys").mkdir()
    assert opened("mine.pem")._settings.certificate == tmp_path / "mine.pem"
    with pytest.raises(InputError, match="no provider may be given"):
        opened("keys/signing")
