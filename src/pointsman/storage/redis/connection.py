"""The connection to Redis: opened when asked for, and its errors told in the product's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pointsman.errors import RedisNotInstalled, RedisUnavailable

if TYPE_CHECKING:
    from redis import Redis

    from pointsman.storage.policies.settings import Settings

VARIABLE: Final = "POINTSMAN_REDIS"
TIMEOUT_S = 1.0
"""How long a caller waits for Redis: its counts are read before every model call."""

MOST_CONNECTIONS = 32


def chosen_redis(settings: Settings) -> str:
    """Return the URL of the Redis that replicas share: the environment's, else the settings'."""
    return os.environ.get(VARIABLE, "") or settings.redis


def opened_redis(url: str) -> Redis:
    """Return a client that connects when it is first used; may be shared by threads."""
    try:
        # Imported here: an extra, that most homes do without.
        from redis import Redis  # noqa: PLC0415 - see above
        from redis.backoff import NoBackoff  # noqa: PLC0415 - see above
        from redis.retry import Retry  # noqa: PLC0415 - see above
    except ImportError as error:
        raise RedisNotInstalled(hint="pip install 'pointsman[redis]'") from error
    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        max_connections=MOST_CONNECTIONS,
        # A kept connection may be that of a server which is gone; a second one is not tried blindly
        # because every script may be run twice, but only once more.
        retry=Retry(NoBackoff(), 1),
    )


def url_without_password(url: str) -> str:
    """Return an address without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 6379}{parts.path}"


@contextmanager
def told_errors() -> Iterator[None]:
    """Turn what the client raises into an error that says what to do."""
    from redis.exceptions import RedisError  # noqa: PLC0415 - an extra, as above

    try:
        yield
    except (RedisError, OSError) as error:
        raise RedisUnavailable(f"redis does not answer: {error}") from error


def lua(name: str) -> str:
    """Return the text of a script."""
    return files(__package__).joinpath(f"{name}.lua").read_text("utf-8")
