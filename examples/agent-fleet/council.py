"""Three members of the council approve every open request of a home."""  # noqa: INP001 - an example

import sys
from contextlib import closing
from pathlib import Path

from pointsman import Pointsman
from pointsman.governance.action import Actor
from pointsman.storage.home import open_home
from pointsman.storage.stores.semantic import SEMANTIC, SemanticMemory

# Over HTTP each member votes with a key of their own: see the guide.
MEMBERS = [Actor(f"member-{name}", name, "council") for name in ("ada", "grace", "mary")]


def written(home):
    """How many versions semantic memory holds."""
    place = open_home(home).place(SEMANTIC)
    if not place.exists():
        return 0
    with closing(SemanticMemory(place)) as memory:
        return len(memory.every_version())


def main(home):
    """Vote, one after the other; the third yes carries a request, and has it carried out."""
    with Pointsman(home, create=False) as pointsman:
        for asked in pointsman.approvals.list_since():
            request = asked.request
            if asked.status != "pending":
                continue
            tell(home, f"{request.action_type} {request.target}: {asked.status}")
            for member in MEMBERS:
                name, bound = request.request_id, request.action_hash
                after = pointsman.approvals.vote(name, "approve", bound, member)
                tell(home, f"  {member.name} approves: {after.status}")


def tell(home, text):
    """Say what happened, and how much memory holds now."""
    sys.stdout.write(f"{text}, memory holds {written(home)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
