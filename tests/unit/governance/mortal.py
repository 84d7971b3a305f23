"""A process that carries a request out and dies on the way, for a test to look at what is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pointsman.app import Pointsman
from pointsman.approvals.effects import Effect, Effects
from pointsman.governance.action import Actor
from pointsman.testing import FrozenClock


def main() -> None:
    home, request_id, point = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    carry_out = Effects.carry_out

    def dying(self: Effects, name: str, claim: str) -> Effect:
        if point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = carry_out(self, name, claim)
        os.kill(os.getpid(), signal.SIGKILL)
        return done

    Effects.carry_out = dying  # type: ignore[method-assign]  # the test's own process
    with Pointsman(home, create=False, clock=FrozenClock()) as pointsman:
        pointsman.approvals.execute(request_id, Actor("admin", "admin", "admin"))


if __name__ == "__main__":
    main()
