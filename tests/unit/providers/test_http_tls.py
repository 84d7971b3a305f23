"""TLS of the pool: whom it trusts, and whom not."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.unit.providers.calling import SMALL, run
from tests.unit.providers.pooled import BOTH, message

from pointsman.errors import InputError
from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.testing.certificates import TestAuthority
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.turns.registry.upstream import UpstreamOrigin


def tls_outcome(context, origin_host, tmp_path, ca_file, *, loop="asyncio", resolve=None):
    async def work():
        async with ScriptedUpstream(tls=context) as upstream:
            more = {"resolve": resolve} if resolve else {}
            settings = replace(SMALL, ca_file=ca_file, allow_private=True)
            pool = ConnectionPool(
                UpstreamOrigin(True, origin_host, upstream.port), settings, **more
            )
            ends_at = asyncio.get_running_loop().time() + 5
            try:
                answer = await pool.request(message(), Deadlines(connect_s=1), ends_at)
                await answer.read()
            except UpstreamError as error:
                return f"{error.result}: {error.message}"
            else:
                return answer.status
            finally:
                await pool.close()
                await upstream.wait_for_disconnects()

    return run(work, loop)


async def here(_host, _port):
    return ["127.0.0.1"]


@BOTH
def test_tls_with_a_certificate_that_is_vouched_for(tmp_path, loop):
    authority = TestAuthority(tmp_path)
    named = authority.server("api.example.com")
    given = {"tmp_path": tmp_path, "ca_file": authority.ca_file, "loop": loop}
    assert tls_outcome(authority.server(), "127.0.0.1", **given) == 200
    assert tls_outcome(named, "api.example.com", resolve=here, **given) == 200


@BOTH
def test_tls_that_cannot_be_trusted_is_refused(tmp_path, loop):
    authority = TestAuthority(tmp_path)
    given = {"tmp_path": tmp_path, "ca_file": authority.ca_file, "loop": loop}
    expired = authority.server(is_expired=True)
    said = tls_outcome(expired, "127.0.0.1", **given)
    assert said.startswith("network: ")
    assert "expired" in said
    wrong = authority.server("other.example.com")
    said = tls_outcome(wrong, "api.example.com", resolve=here, **given)
    assert "not accepted" in said
    assert "not valid for" in said
    unknown = {**given, "ca_file": None}
    assert "not accepted" in tls_outcome(authority.server(), "127.0.0.1", **unknown)
    assert tls_outcome(None, "127.0.0.1", **given).startswith("network: ")


def test_a_file_without_certificates_is_refused(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(InputError, match="no certificates"):
        ConnectionPool(UpstreamOrigin(True, "127.0.0.1", 1), PoolSettings(ca_file=path))
