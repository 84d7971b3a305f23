"""A scripted provider in a process of its own, so that its memory and its work are not counted.

`python -m campaigns.scripted_process <answers> <text>` prints its address and serves until its
standard input is closed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FORGET_S = 0.5


@contextmanager
def serve_script(answers: int, text: str) -> Iterator[str]:
    """Serve the same answer so many times; gives the address."""
    command = [sys.executable, "-m", "campaigns.scripted_process", str(answers), text]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        yield served.stdout.readline().strip()
        assert served.stdin is not None
        served.stdin.close()


async def serve(answers: int, text: str) -> None:
    """Serve until standard input is closed."""
    from pointsman.testing import ScriptedUpstream, says  # noqa: PLC0415 - only the child needs it

    async with ScriptedUpstream(*[says(text)] * answers) as upstream:
        print(upstream.base_url, flush=True)
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while not ended.done():
            upstream.requests.clear()
            await asyncio.wait({ended}, timeout=FORGET_S)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
