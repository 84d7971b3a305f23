"""The actor of a request, taken from its caller: never from what the call says about itself.

A principal is a key. Two keys are two principals, unless they were made for one name: then they are
one person, who has one vote. The admin who makes council keys gives each member one name for good.
"""

from __future__ import annotations

from typing import Final

from pointsman.access.keys import Principal
from pointsman.errors import NotAuthenticated
from pointsman.governance.action import Actor

ADMIN: Final = "admin"
"""The id of the caller that holds the admin token, which is no key."""

OWNER: Final = Actor("local", "local", "admin")
"""The operator who works on the home itself, without a key: the files are theirs."""


def actor_of(principal: Principal) -> Actor:
    """Return the caller; without a key, the anonymous one."""
    if principal.is_anonymous:
        raise NotAuthenticated
    return Actor(principal.key_id or ADMIN, principal.name, principal.acts_as)
