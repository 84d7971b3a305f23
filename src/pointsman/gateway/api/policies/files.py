"""Policy files over HTTP: one as it stands, and replacing it."""

from __future__ import annotations

from typing import Final

from pointsman.errors import NotFound
from pointsman.gateway.api.policies.shapes import PolicyAnswer, PolicyWritten
from pointsman.gateway.api.policies.writing import check_models, write_policy
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.services import GatewayServices, check_own_files
from pointsman.signals.kinds import KINDS
from pointsman.storage.policies.policies import read_table
from pointsman.turns.policy import read_policy

POLICIES: Final = ("models.yaml", "routing.yaml", "placement.yaml")


class PolicyFileApi:
    """Serves policy files."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def show_policy(self, request: ApiRequest) -> PolicyAnswer:
        """Return a policy file as it stands, and its problems."""
        name = policy_name(request)
        pointsman = self._parts.pointsman
        in_force, text = pointsman.in_force(), pointsman.files.text(name)
        problems = [str(p) for file in in_force.invalid if file.name == name for p in file.problems]
        return PolicyAnswer(
            name=name,
            text=(text or b"").decode("utf-8"),
            problems=tuple(problems),
            is_there=text is not None,
            publication_id=in_force.origin.publication_id or None,
        )

    async def replace_policy(self, request: ApiRequest) -> PolicyWritten:
        """Replace a policy file, if the new text is valid; otherwise nothing changes."""
        check_own_files(self._parts)
        name, text = policy_name(request), request.asked.body
        self._check(name, text)
        over = request.asked.header(b"if-match").strip('"')
        await write_policy(self._parts, name, text, request.caller, over)
        in_force = self._parts.pointsman.in_force()
        return PolicyWritten(
            name=name,
            policy_id=in_force.policy_id,
            problems=tuple(str(problem) for problem in in_force.problems),
            publication_id=in_force.origin.publication_id or None,
        )

    def _check(self, name: str, text: bytes) -> None:
        """Raise with all that is wrong with a candidate."""
        files = self._parts.pointsman.files
        if name == "models.yaml":
            check_models(self._parts, text)
        elif name == "placement.yaml":
            known = files.known_models(files.in_force().models)
            read_table(text, name, [each.name for each in KINDS], known)
        else:
            known = files.known_models(files.in_force().models)
            read_policy(text, name, known, "/", tables=files.routing_tables())


def policy_name(request: ApiRequest) -> str:
    """Return the policy file that a path names, or raise that there is none."""
    name = request.part("name")
    if name not in POLICIES:
        raise NotFound(f"`{name[:100]}` is no policy", hint=f"one of {', '.join(POLICIES)}")
    return name
