"""The tools of a session: what is offered, asked about, run, and refused."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from pointsman.conversations.equipment import SessionTools
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.tool import (
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    ToolSet,
    input_problems,
    schema_refusal,
)
from pointsman.sessions.tools.box import ToolBox, permission
from pointsman.sessions.tools.listing import LIST_DIR, ListInput
from pointsman.sessions.tools.memory_files import MEMORY_ADD, MEMORY_REPLACE, AddInput, ReplaceInput
from pointsman.sessions.tools.process import RUN_SHELL, ShellInput
from pointsman.sessions.tools.reading import READ_FILE, ReadInput
from pointsman.sessions.tools.searching import SEARCH, SearchInput
from pointsman.sessions.tools.skills import LOAD_SKILL, LoadInput
from pointsman.sessions.tools.writing import WRITE_FILE, WriteInput
from pointsman.storage.policies.settings import Settings
from pointsman.storage.policies.tool_settings import OWN_TOOLS, Permission, ToolSettings

TOOLS = (
    (READ_FILE, ReadInput),
    (WRITE_FILE, WriteInput),
    (LIST_DIR, ListInput),
    (SEARCH, SearchInput),
    (RUN_SHELL, ShellInput),
    (MEMORY_ADD, AddInput),
    (MEMORY_REPLACE, ReplaceInput),
    (LOAD_SKILL, LoadInput),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "skills" / "review").mkdir(parents=True)
    text = "---\nname: review\ndescription: review code changes\n---\nLook twice.\n"
    (home / "skills" / "review" / "SKILL.md").write_text(text)
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello\n")
    return tmp_path / "work"


def kit(home: Path, work: Path | None, **tools: tuple[str, ...]) -> SessionTools:
    return SessionTools(home, work, Settings(tools=ToolSettings(**tools)))  # type: ignore[arg-type] # lists only


def use(name: str, given: Mapping[str, object] | bytes) -> ToolUse:
    text = given if isinstance(given, bytes) else msgspec.json.encode(given)
    return ToolUse("tu_1", name, Raw(text))


def context(work: Path | None) -> ToolContext:
    return ToolContext("s", "t", None if work is None else str(work))


def worker(work: Path) -> ToolContext:
    return ToolContext("w", "t", str(work), is_worker=True, parent_session_id="s")


def ran(
    box: ToolSet, where: Path | ToolContext | None, name: str, given: Mapping[str, object]
) -> ToolOutcome:
    around = where if isinstance(where, ToolContext) else context(where)
    return asyncio.run(box.run(use(name, given), around))


def text(outcome: ToolOutcome) -> str:
    return "".join(each.text for each in outcome.content if isinstance(each, Text))


class TestDefinitions:
    def test_every_tool_is_offered_in_order(self, home: Path, work: Path) -> None:
        names = [each.name for each in kit(home, work).tools().definitions()]
        assert sorted(names) == sorted(OWN_TOOLS)

    def test_schemas_keep_to_the_subset_and_to_what_is_read(self) -> None:
        for definition, kind in TOOLS:
            schema = msgspec.json.decode(definition.input_schema)
            assert is_in_subset(schema), definition.name
            fields = msgspec.structs.fields(kind)
            assert [*schema["properties"]] == [each.name for each in fields]
            assert schema["required"] == [each.name for each in fields if each.required]
            assert schema["additionalProperties"] is False
            assert schema_refusal(bytes(definition.input_schema)) == ""

    def test_classes_say_what_a_tool_can_do(self) -> None:
        assert {each.name: each.side_effects for each, _ in TOOLS} == {
            "read_file": "read",
            "list_dir": "read",
            "search": "read",
            "load_skill": "read",
            "write_file": "write",
            "memory_add": "write",
            "memory_replace": "write",
            "run_shell": "execute",
        }

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
            {"oneOf": []},
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": ["string", "null"]},
            {"type": "object", "patternProperties": {}},
            {"type": "integer", "minimum": 1},
        ],
    )
    def test_what_is_outside_the_subset_is_known(self, schema: object) -> None:
        assert not is_in_subset(schema)

    def test_without_a_workspace_no_file_tool_is_offered(self, home: Path) -> None:
        names = {each.name for each in kit(home, None).tools().definitions()}
        assert names == {"memory_add", "memory_replace", "load_skill"}

    def test_denied_tools_are_not_there(self, home: Path, work: Path) -> None:
        box = kit(home, work, deny=("execute", "memory_*")).tools()
        names = {each.name for each in box.definitions()}
        assert names == {"read_file", "write_file", "list_dir", "search", "load_skill"}
        assert ran(box, work, "run_shell", {"command": "true"}).error_class == "not_found"


class TestWorkers:
    @pytest.mark.req(216, 299)
    @pytest.mark.parametrize(
        ("name", "given"),
        [("memory_add", {"text": "x"}), ("memory_replace", {"old": "x", "new": "y"})],
    )
    def test_worker_that_changes_memory_calls_an_unknown_tool(
        self, home: Path, work: Path, name: str, given: dict[str, str]
    ) -> None:
        box = kit(home, work).tools()
        outcome = ran(box, worker(work), name, given)
        assert outcome.error_class == "not_found"
        assert text(outcome).startswith(f"there is no tool `{name}`")
        assert box.needs_confirmation(use(name, given), worker(work)) is None
        assert not (home / "MEMORY.md").exists()

    @pytest.mark.req(218)
    def test_worker_keeps_file_and_shell_tools(self, home: Path, work: Path) -> None:
        box = kit(home, work).tools()
        calls: list[tuple[str, dict[str, str]]] = [
            ("read_file", {"path": "a.txt"}),
            ("list_dir", {}),
            ("search", {"pattern": "hello"}),
            ("write_file", {"path": "x", "content": "y"}),
            ("run_shell", {"command": "cat x"}),
        ]
        outcomes = [ran(box, worker(work), name, given) for name, given in calls]
        assert [each.error_class for each in outcomes] == [None] * 5
        assert text(outcomes[-1]) == "y\n[exit code 0]"

    @pytest.mark.req(217)
    @pytest.mark.parametrize("path", ["home/routing.yaml", "home/skills/new/SKILL.md", "MEMORY.md"])
    def test_worker_cannot_write_skills_routing_or_memory(self, tmp_path: Path, path: str) -> None:
        """The home lies in the workspace here, which is the worst case."""
        home = tmp_path / "home"
        home.mkdir()
        box = kit(home, tmp_path).tools()
        outcome = ran(box, worker(tmp_path), "write_file", {"path": path, "content": "x"})
        assert outcome.error_class == "permission_denied"
        assert not (tmp_path / path).exists()

    def test_skill_loaded_by_the_planner_is_new_to_a_worker(self, home: Path, work: Path) -> None:
        box = kit(home, work).tools()
        for around in (context(work), worker(work)):
            assert text(ran(box, around, "load_skill", {"name": "review"})) == "Look twice."
            assert "already" in text(ran(box, around, "load_skill", {"name": "review"}))


class TestPermissions:
    @pytest.mark.parametrize(
        ("settings", "given"),
        [
            (ToolSettings(), "ask"),
            (ToolSettings(allow=("execute",)), "allow"),
            (ToolSettings(allow=("execute",), ask=("run_shell",)), "ask"),
            (ToolSettings(allow=("run_shell",), deny=("execute",)), "allow"),
            (ToolSettings(allow=("run_*",), deny=("execute",)), "allow"),
            (ToolSettings(allow=("run_*",), deny=("r*",)), "deny"),
            (ToolSettings(deny=("run_*",), allow=("run_shell",)), "allow"),
        ],
    )
    def test_name_counts_before_pattern_before_class(
        self, settings: ToolSettings, given: Permission
    ) -> None:
        assert permission(settings, RUN_SHELL) == given

    @pytest.mark.parametrize(
        ("side_effects", "given"),
        [
            ("none", "allow"),
            ("read", "allow"),
            ("write", "ask"),
            ("execute", "ask"),
            ("network", "ask"),
        ],
    )
    def test_what_changes_something_is_asked_about_by_default(
        self, side_effects: str, given: str
    ) -> None:
        tool = ToolDefinition("x", "", Raw(b"{}"), side_effects)  # type: ignore[arg-type] # the table's
        assert permission(ToolSettings(), tool) == given

    def test_write_is_asked_about_with_what_it_would_change(self, home: Path, work: Path) -> None:
        box = kit(home, work).tools()
        request = box.needs_confirmation(
            use("write_file", {"path": "a.txt", "content": "bye"}), context(work)
        )
        assert request is not None
        assert request.projected_modifications == ("replace `a.txt` (6 bytes before, 3 after)",)
        assert request.scope_key == "write_file"
        assert (work / "a.txt").read_text() == "hello\n"

    def test_command_is_asked_about_by_itself(self, home: Path, work: Path) -> None:
        box = kit(home, work).tools()
        asked = [
            box.needs_confirmation(use("run_shell", {"command": command}), context(work))
            for command in ("make test", "make test", "make test; rm -rf /")
        ]
        keys = [each.scope_key for each in asked if each is not None]
        assert keys[0] == keys[1] != keys[2]
        assert asked[0] is not None
        assert asked[0].command_summary == "make test"

    def test_long_command_is_never_covered_by_one_that_looks_alike(
        self, home: Path, work: Path
    ) -> None:
        box = kit(home, work).tools()
        long = "x" * 5_000
        keys = {
            request.scope_key
            for end in ("a", "b")
            if (
                request := box.needs_confirmation(
                    use("run_shell", {"command": long + end}), context(work)
                )
            )
        }
        assert len(keys) == 2

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("read_file", {"path": "a.txt"}),
            ("write_file", {"path": 3, "content": "x"}),
            ("nonesuch", {}),
        ],
    )
    def test_nobody_is_asked_about_what_is_harmless_or_cannot_be(
        self, home: Path, work: Path, name: str, given: dict[str, object]
    ) -> None:
        assert kit(home, work).tools().needs_confirmation(use(name, given), context(work)) is None

    def test_allowed_write_asks_nobody(self, home: Path, work: Path) -> None:
        box = kit(home, work, allow=("write_file",)).tools()
        call = use("write_file", {"path": "x", "content": "y"})
        assert box.needs_confirmation(call, context(work)) is None


class TestCalls:
    def test_file_is_read(self, home: Path, work: Path) -> None:
        assert text(ran(kit(home, work).tools(), work, "read_file", {"path": "a.txt"})) == "hello\n"

    def test_failure_is_one_line_for_the_model(self, home: Path, work: Path) -> None:
        outcome = ran(kit(home, work).tools(), work, "read_file", {"path": "../x"})
        assert outcome.is_error
        assert outcome.error_class == "permission_denied"
        assert outcome.error_message == text(outcome)
        assert "\n" not in text(outcome)

    @pytest.mark.parametrize(
        ("name", "meant"),
        [("read_flie", "read_file"), ("Read-File", "read_file"), ("serch", "search")],
    )
    def test_unknown_tool_is_told_with_the_nearest(
        self, home: Path, work: Path, name: str, meant: str
    ) -> None:
        outcome = ran(kit(home, work).tools(), work, name, {})
        assert (outcome.error_class, text(outcome)) == (
            "not_found",
            f"there is no tool `{name}`: did you mean `{meant}`?",
        )

    def test_input_that_does_not_fit_is_told_with_all_its_problems(
        self, home: Path, work: Path
    ) -> None:
        outcome = ran(kit(home, work).tools(), work, "write_file", {"paht": "x", "content": 3})
        assert outcome.error_class == "validation_error"
        assert "unknown key `paht` (did you mean `path`?)" in text(outcome)
        assert "missing key `path`" in text(outcome)
        assert "`content`: expected a text, got `3`" in text(outcome)

    @pytest.mark.parametrize("number", ["1.0", "1.5", "1e30", "-1", "99999999999999999999999"])
    def test_number_that_is_no_line_never_raises(self, home: Path, work: Path, number: str) -> None:
        given = b'{"path": "a.txt", "start_line": ' + number.encode() + b"}"
        box = kit(home, work).tools()
        outcome = asyncio.run(box.run(use("read_file", given), context(work)))
        assert outcome.error_class == "validation_error" or text(outcome).endswith("hello\n")
        assert "\n" not in outcome.error_message

    def test_failure_of_the_system_is_told_not_raised(
        self, home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "read", broken)
        outcome = ran(kit(home, work).tools(), work, "read_file", {"path": "a.txt"})
        assert outcome.error_class == "execution_error"
        assert text(outcome) == "`read_file` cannot be used: input/output error"

    def test_command_is_told_as_executed(self, home: Path, work: Path) -> None:
        outcome = ran(kit(home, work).tools(), work, "run_shell", {"command": "echo hi"})
        assert outcome.command_executed == "echo hi"
        assert text(outcome) == "hi\n[exit code 0]"

    def test_cancel_ends_a_running_call(self, home: Path, work: Path) -> None:
        async def go() -> ToolOutcome:
            box = kit(home, work).tools()
            call = use("run_shell", {"command": "touch begun; sleep 600"})
            task = asyncio.create_task(box.run(call, context(work)))
            async with asyncio.timeout(20):
                while not (work / "begun").exists():
                    await asyncio.sleep(0.01)
                await box.cancel("tu_1")
                assert task.done() or await task
            await box.cancel("tu_1")
            await box.cancel("unknown")
            return task.result()

        assert asyncio.run(go()).error_class == "cancelled"


class TestValidation:
    def given(self, schema: Mapping[str, object], data: bytes) -> tuple[str, ...]:
        definition = ToolDefinition("x", "", Raw(msgspec.json.encode(schema)))
        return input_problems(use("x", data), definition)

    @pytest.mark.parametrize("data", [b"[]", b'"x"', b"3", b"null"])
    def test_input_must_be_an_object(self, data: bytes) -> None:
        assert self.given({"type": "object"}, data) == ("the input must be a JSON object",)

    def test_nothing_stands_for_an_empty_object(self) -> None:
        assert self.given({"type": "object"}, b"") == ()

    @pytest.mark.parametrize("data", [b"{", b'{"a": 1, "a": 2}', b'{"a": NaN}', b"\xff"])
    def test_text_that_is_not_strict_json_is_told(self, data: bytes) -> None:
        assert self.given({"type": "object"}, data)

    def test_deep_input_is_refused_without_a_crash(self) -> None:
        assert self.given({"type": "object"}, b'{"a":' * 5_000 + b"1" + b"}" * 5_000)

    def test_many_problems_are_cut(self) -> None:
        data = msgspec.json.encode({f"k{number}": 1 for number in range(50)})
        found = self.given({"type": "object", "additionalProperties": {"type": "string"}}, data)
        assert found[-1] == "and 42 more"

    def test_schema_that_refers_elsewhere_is_not_looked_up(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text("{}")
        for where in (f"file://{tmp_path}/x.json", "http://127.0.0.1:9/x.json"):
            schema = {"type": "object", "properties": {"a": {"$ref": where}}}
            assert "not looked up" in schema_refusal(msgspec.json.encode(schema))


def test_box_without_tools_has_none() -> None:
    box = ToolBox((), ToolSettings())
    assert box.definitions() == ()
    outcome = asyncio.run(box.run(use("x", {}), context(None)))
    assert text(outcome) == "there is no tool `x`: there are: none"


_KEYWORDS = frozenset(
    {
        "type", "enum", "required", "properties", "items", "description", "format",
        "additionalProperties",
    }
)  # fmt: skip
_DEEPEST = 32


def is_in_subset(schema: object, depth: int = 0) -> bool:
    """Tell whether a schema keeps to the subset."""
    if not isinstance(schema, dict) or depth > _DEEPEST or not _KEYWORDS.issuperset(schema):
        return False
    if not isinstance(schema.get("additionalProperties", False), bool):
        return False
    if not isinstance(schema.get("type", ""), str):
        return False
    members = schema.get("properties", {})
    inner = [*members.values()] if isinstance(members, dict) else [members]
    inner += [schema["items"]] if "items" in schema else []
    return all(is_in_subset(each, depth + 1) for each in inner)
