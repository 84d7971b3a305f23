"""Where a provider may be."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.providers.calling import run
from tests.unit.providers.test_http_pool import message

from pointsman.errors import InputError
from pointsman.providers.http.address import addresses_of, is_public
from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.turns.registry.upstream import UpstreamOrigin, is_service, read_base_url

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1", "255.255.255.255",
    "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    "2002:a9fe:a9fe::", "not an address",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "104.18.6.192", "2606:4700::6812:7c0", "::ffff:8.8.8.8"]
PUBLIC_TRANSLATED = "64:ff9b::808:808"


@pytest.mark.parametrize("address", PRIVATE)
def test_inner_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", [*PUBLIC, PUBLIC_TRANSLATED])
def test_outer_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://api.openai.com/v1", UpstreamOrigin(True, "api.openai.com", 443), "/v1"),
        (
            "https://API.example.com:8443/a/b/",
            UpstreamOrigin(True, "api.example.com", 8443),
            "/a/b",
        ),
        ("http://127.0.0.1:11434", UpstreamOrigin(False, "127.0.0.1", 11434), ""),
        ("http://[::1]:80/", UpstreamOrigin(False, "::1", 80), ""),
        ("http://vllm_server:8000/v1", UpstreamOrigin(False, "vllm_server", 8000), "/v1"),
    ],
)
def test_an_address_is_read(url, origin, path):
    assert read_base_url(url) == (origin, path)


@pytest.mark.parametrize(
    "url",
    [
        "", "api.openai.com", "ftp://x", "file:///etc/passwd", "https://", "https://:443/",
        "https://user:pw@host/", "https://user@host/", "https://host?x=1", "https://host/#a",
        "https://host/?", "https://host:0/", "https://host:99999/", "https://host:x/",
        "https://ho st/", "https://host/a b", "https://host/\r\nx: y", "https://höst/",
        "https://host\\@evil/", "https://[::1", "https://-host/", "gopher://x", "//host/",
    ],
)  # fmt: skip
def test_other_addresses_are_refused_and_not_repeated(url):
    with pytest.raises(InputError) as caught:
        read_base_url(url)
    assert "pw" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        origin, path = read_base_url("https://" + text)
    except InputError:
        return
    assert origin.host
    assert not set(origin.host_header + path) & set("\r\n\0 ?#@\\")


def gives(*addresses):
    async def resolve(_host, _port):
        return addresses

    return resolve


def found(host, *addresses, allow_private=False):
    origin = UpstreamOrigin(True, host, 443)
    return run(lambda: addresses_of(origin, gives(*addresses), allow_private=allow_private))


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_inside_is_refused_unless_allowed(address):
    with pytest.raises(UpstreamError, match="private address") as caught:
        found("inside.example", address)
    assert caught.value.error_class == "other"
    with pytest.raises(UpstreamError):
        found("both.example", "1.1.1.1", address)
    if is_service(address):
        with pytest.raises(UpstreamError, match="link-local address or a metadata service"):
            found("inside.example", address, allow_private=True)
    else:
        assert found("inside.example", address, allow_private=True) == [address]


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "127.1", "localhost.", "017700000001"]
)
def test_disguised_addresses_are_names(host):
    with pytest.raises(UpstreamError, match="private address"):
        found(host, "127.0.0.1")


def test_an_address_written_in_the_configuration_is_meant():
    assert found("127.0.0.1") == ["127.0.0.1"]
    assert found("10.0.0.7") == ["10.0.0.7"]
    with pytest.raises(UpstreamError, match="link-local address or a metadata service"):
        found("169.254.169.254")
    assert found("localhost", "127.0.0.1") == ["127.0.0.1"]


def test_a_name_without_an_address_is_a_network_error():
    with pytest.raises(UpstreamError) as caught:
        found("nowhere.example")
    assert caught.value.error_class == "network"
    assert caught.value.is_unreached


def request(resolve, port=1, **settings):
    """Ask by name, with a resolver of one's own; give the error."""

    async def work():
        pool = ConnectionPool(
            UpstreamOrigin(False, "api.example.com", port),
            PoolSettings(**settings),
            resolve=resolve,
        )
        try:
            deadlines = Deadlines(connect_s=0.3)
            await pool.request(message(), deadlines, 1e12)
        except UpstreamError as error:
            return error
        finally:
            await pool.close()

    return run(work)


def test_a_name_that_is_not_found_is_a_network_error():
    async def resolve(_host, _port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    error = request(resolve)
    assert (error.error_class, "cannot be found" in error.message) == ("network", True)
    assert error.result == "network"


def test_a_resolver_that_never_answers_is_a_timeout():
    async def resolve(_host, _port):
        import asyncio

        await asyncio.sleep(60)

    error = request(resolve)
    # Told as a timeout; but no connection came about, so it counts as the network's.
    assert (error.error_class, error.result) == ("timeout", "network")


def test_the_address_that_was_checked_is_the_one_connected_to():
    """A name that leads elsewhere at its second look is looked at once, and checked each time."""
    asked = []

    async def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) > 1 else ["192.0.2.1"]

    async def work():
        async with ScriptedUpstream() as upstream:
            pool = ConnectionPool(
                UpstreamOrigin(False, "api.example.com", upstream.port), resolve=rebinding
            )
            for _ in range(2):
                try:
                    await pool.request(message(), Deadlines(connect_s=0.1), 1e12)
                except UpstreamError:
                    continue
                pytest.fail("an inner address was reached")
            await pool.close()
            return upstream.connections_made

    assert run(work) == 0
    assert asked == ["api.example.com"] * 2


def test_a_second_address_is_tried_when_the_first_leads_nowhere():
    async def work():
        async with ScriptedUpstream() as upstream, ScriptedUpstream(listens=False) as _other:
            pool = ConnectionPool(
                UpstreamOrigin(False, "api.example.com", upstream.port),
                PoolSettings(allow_private=True),
                resolve=gives("127.0.0.2", "127.0.0.1"),
            )
            answer = await pool.request(message(), Deadlines(), 1e12)
            await answer.read()
            await pool.close()
            return answer.status

    assert run(work) == 200
