"""The main screens, letter by letter, in light and dark, small and large.

`POINTSMAN_SNAPSHOTS=update` draws them anew; look at them before they are kept.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.acceptance.parlour import HAIKU, ROUTING, SONNET, Bench
from tests.acceptance.test_conversation_facts import PATTERNED, learn
from tests.gateway.house import stalls
from tests.tui.booth import Booth, a_booth, check_picture

from pointsman.conversations.services import Kit
from pointsman.providers.messages import Text
from pointsman.sessions.tool import ConfirmationRequest, ToolOutcome
from pointsman.testing import calls, fails, says
from pointsman.testing.upstream_replies import Reply
from pointsman.turns.story.turn_story import TurnStory

pytestmark = pytest.mark.anyio

UPDATES = os.environ.get("POINTSMAN_SNAPSHOTS") == "update"
PLACE = Path("/home/ada/railway")
ANSWER = """\
A **point** lets a train pass from one track to another. Three parts do the work:

- the *blades*, which move
- the *crossing*, where rails meet
- the `lock`, which holds the blades

```python
def route(train: Train) -> Track:
    return MAIN if train.is_express else LOOP
```
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def an_answer(booth: Booth) -> None:
    await booth.says("What is a railway point, and what is it made of?")
    for each in booth.last.tools:
        each.stand("done", latency_ms=12)


async def a_report(booth: Booth) -> None:
    await booth.says("/commit fix the auth bug")
    pointsman = booth.app._pointsman
    read = pointsman.read_turn

    def with_round_times(name: str) -> TurnStory:
        story = read(name)
        timed = [replace(each, first_byte_us=240_000, elapsed_us=812_000) for each in story.calls]
        return replace(story, calls=tuple(timed))

    pointsman.read_turn = with_round_times  # type: ignore[method-assign] # a picture has no clock
    await booth.command("/model show")


async def a_confirmation(booth: Booth) -> None:
    await booth.types("Run the tests, please.")
    await booth.until(lambda: booth.app.panel.current is not None)


async def a_disagreement(booth: Booth) -> None:
    learn(booth.app._pointsman.home.path, "/commit it", SONNET, 200, str(PLACE))
    await booth.types("/commit it")
    await booth.until(lambda: booth.app.panel.current is not None)


async def a_command(booth: Booth) -> None:
    await booth.pilot.press("/", "r")
    await booth.until(lambda: booth.app.suggestions.is_open)


async def a_cost(booth: Booth) -> None:
    await booth.says("Rename foo to bar in all of src, and say what changed.")
    await booth.pilot.press("f3")
    await booth.command("/cost")


async def a_swap(booth: Booth) -> None:
    await booth.types("Tell me a long story.")
    await booth.until(lambda: "Once" in booth.screen)
    await booth.command("/model haiku")
    await booth.until(lambda: "⇢" in booth.screen and "working" in booth.screen)


async def an_outage(booth: Booth) -> None:
    await booth.says("hello")
    await booth.says("is anybody there today?")
    await booth.command("/providers")


TASK = {"tier": "fast", "task": "rename foo to bar", "context": {"mode": "minimal"}}
DEEP = {"name": "deep for all", "when": {"message_matches": "."}, "use": SONNET}
COMMITS = {"name": "fast for commits", "when": {"message_matches": "^/commit"}, "use": HAIKU}
Scene = Callable[[Booth], Awaitable[None]]
SCENES: dict[str, tuple[Scene, tuple[Reply, ...]]] = {
    "answer": (an_answer, (calls(("read_file", {"path": "points.md"})), says(ANSWER))),
    "why": (a_report, (says("Done: `fix: check the token before its use`."),)),
    "confirm": (a_confirmation, (calls(("run_shell", {"command": "make test"})),)),
    "disagreement": (a_disagreement, ()),
    "commands": (a_command, ()),
    "cost": (a_cost, (calls(("delegate", TASK)), says("renamed"), says("Six files changed."))),
    "swap": (a_swap, (stalls("Once upon a time there was a signal box on a hill."),)),
    "outage": (an_outage, (fails(401), fails(401))),
}
ROUTES = {
    "why": {**ROUTING, "rules": [COMMITS]},
    "disagreement": PATTERNED,
    "outage": {**ROUTING, "global_default": "openai:gpt-5-mini", "rules": [DEEP]},
}


DARK, LIGHT = ("dark", (80, 24)), ("light", (120, 40))
LOOKS = [(name, *look) for name in SCENES for look in (DARK, LIGHT)]
LOOKS += [("answer", "light", (80, 24)), ("answer", "dark", (120, 40))]


@pytest.mark.parametrize(("name", "theme", "size"), LOOKS)
async def test_screen_looks_as_it_is_kept(
    tmp_path: Path, name: str, theme: str, size: tuple[int, int]
) -> None:
    scene, replies = SCENES[name]
    bench = Bench({"run_shell": ToolOutcome((Text("ok"),))})
    bench.asks["run_shell"] = ConfirmationRequest(
        "run a command in ~/railway", "run_shell", command_summary="make test"
    )
    async with a_booth(
        tmp_path / "h",
        *replies,
        size=size,
        kit=Kit(bench, is_interactive=True, route_s=600),
        frozen=True,
        workspace=PLACE,
        theme=theme,
        openai=(says("hello from mini"), says("yes, I am here")),
        files={"routing": ROUTES.get(name, ROUTING)},
    ) as booth:
        await scene(booth)
        await booth.pilot.pause()
        await check_picture(booth, f"{name}-{theme}-{size[0]}x{size[1]}", update=UPDATES)
