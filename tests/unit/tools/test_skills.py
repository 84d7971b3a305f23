"""Skills: read with every mistake at its place, matched the same way everywhere, loaded once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from pointsman.kernel.number import Billionths
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.events.session import SkillLoaded
from pointsman.sessions.tool import Skills, ToolContext, ToolOutcome
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.skills import (
    THRESHOLD,
    SessionSkills,
    matches,
    read_skills,
    skill_words,
    words,
)
from pointsman.sessions.tools.stop import Stop

GOOD = "---\nname: {name}\ndescription: {about}\n---\n\n# How\n\nDo it well.\n"


def add(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text)
    return folder / name


def good(folder: Path, name: str, about: str) -> Path:
    return add(folder, name, GOOD.format(name=name, about=about))


def loaded(skills: SessionSkills, name: str, file: str = "") -> ToolOutcome:
    given = {"name": name, "file": file} if file else {"name": name}
    use = ToolUse("tu_9", "load_skill", Raw(msgspec.json.encode(given)))
    return asyncio.run(skills.run(use, ToolContext("s", "t"), Stop()))


def text(outcome: ToolOutcome) -> str:
    return "".join(each.text for each in outcome.content if isinstance(each, Text))


class TestReading:
    def test_skills_are_in_order_of_their_names(self, tmp_path: Path) -> None:
        for name in ("zeta", "alpha", "mid-2"):
            good(tmp_path, name, f"the {name} skill")
        index = read_skills(tmp_path)
        assert [*index.skills] == ["alpha", "mid-2", "zeta"]
        assert index.problems == ()

    def test_without_a_folder_there_are_none(self, tmp_path: Path) -> None:
        assert not read_skills(tmp_path / "none").skills

    @pytest.mark.parametrize(
        ("written", "place", "said"),
        [
            ("no front matter", "1:1", "config.syntax: a skill begins with front matter"),
            ("---\nname: bad\n", "2:1", "config.syntax: the front matter is not closed"),
            ("---\nname: bad\n---\n", "2:1", "config.missing_key: missing key `description`"),
            (
                "---\nname: bad\ndescription: x\ntrigers: [a]\n---\n",
                "4:1",
                "did you mean `triggers`?",
            ),
            ("---\nname: Bad\ndescription: x\n---\n", "2:7", "config.pattern"),
            ("---\nname: other\ndescription: x\n---\n", "2:7", "lies in the folder `bad`"),
            ("---\nname: bad\ndescription: [x]\n---\n", "3:14", "config.wrong_type"),
            ("---\nname: bad\ndescription: x\nextensions: [py]\n---\n", "4:14", "config.pattern"),
            ("---\nname: bad\ndescription: a: b\n---\n", "3:15", "config.syntax"),
        ],
    )
    def test_malformed_skill_is_refused_at_its_place(
        self, tmp_path: Path, written: str, place: str, said: str
    ) -> None:
        good(tmp_path, "fine", "a fine skill")
        add(tmp_path, "bad", written)
        index = read_skills(tmp_path)
        assert [*index.skills] == ["fine"]
        lines = [str(each) for each in index.problems]
        assert lines
        assert any(
            line.startswith(f"{tmp_path}/bad/SKILL.md:{place}: ") and said in line for line in lines
        )

    def test_folder_without_its_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        (problem,) = read_skills(tmp_path).problems
        assert "does not exist" in problem.message

    def test_file_that_leads_out_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "outside.md").write_text(GOOD.format(name="sly", about="x"))
        (tmp_path / "skills" / "sly").mkdir(parents=True)
        (tmp_path / "skills" / "sly" / "SKILL.md").symlink_to("../../outside.md")
        index = read_skills(tmp_path / "skills")
        assert not index.skills
        assert "outside" in index.problems[0].message

    def test_large_file_is_refused(self, tmp_path: Path) -> None:
        add(tmp_path, "big", GOOD.format(name="big", about="x") + "y" * 300_000)
        (problem,) = read_skills(tmp_path).problems
        assert problem.code == "config.too_large"


class TestMatching:
    def score(self, description: str, message: str, *triggers: str) -> Billionths:
        found = matches([skill_words("x", description, triggers)], message)
        return found[0].score if found else Billionths(0)

    def test_score_is_the_share_of_the_descriptions_words(self) -> None:
        assert self.score("deploy the service to staging", "deploy it") == 333_333_333
        assert (
            self.score("deploy the service to staging", "deploy the staging service")
            == 1_000_000_000
        )

    def test_threshold_is_reached_exactly_at_three_tenths(self) -> None:
        ten = "one two three four five six seven eight nine ten"
        assert self.score(ten, "one two three") == THRESHOLD
        assert self.score(ten, "one two") == 0

    def test_long_description_needs_no_more_than_a_short_one(self) -> None:
        long = " ".join(f"word{number}" for number in range(60))
        assert self.score(long, "word1 word2 word3") == THRESHOLD

    def test_trigger_phrase_is_enough(self) -> None:
        assert (
            self.score("zzz", "please Write  a Changelog, now", "write a changelog")
            == 1_000_000_000
        )
        assert self.score("zzz", "write changelog", "write a changelog") == 0

    def test_trigger_counts_by_words_not_letters(self) -> None:
        assert self.score("zzz", "rewrite a book", "write a book") == 0

    def test_case_plurals_and_stop_words_make_no_difference(self) -> None:
        assert [*words("Tests, the CLASS: Straße")] == ["test", "the", "class", "strasse"]
        assert self.score("this is how we do it", "this is how we do it") == 0

    def test_ideographs_are_words(self) -> None:
        assert self.score("数据库迁移", "请做数据库的迁移") >= THRESHOLD

    def test_best_is_first_and_equals_go_by_name(self) -> None:
        skills = [
            skill_words(name, about, ())
            for name, about in (
                ("b", "database migration"),
                ("a", "database migration"),
                ("c", "database"),
            )
        ]
        assert [each.name for each in matches(skills, "a database")] == ["c", "a", "b"]

    def test_endless_message_is_looked_at_in_part(self) -> None:
        assert self.score("needle", "hay " * 5_000 + "needle") == 0

    @pytest.mark.req(170)
    def test_index_is_built_from_descriptions_when_the_session_begins(self, tmp_path: Path) -> None:
        folder = good(tmp_path, "deploy", "deploy the service")
        (folder / "SKILL.md").write_text(
            GOOD.format(name="deploy", about="deploy the service") + "kubernetes cluster rollout\n"
        )
        skills: Skills = SessionSkills(read_skills(tmp_path))
        assert skills.matching("kubernetes cluster rollout") == ()
        (folder / "SKILL.md").write_text(
            GOOD.format(name="deploy", about="kubernetes cluster rollout")
        )
        good(tmp_path, "later", "kubernetes cluster rollout")
        assert skills.matching("kubernetes cluster rollout") == ()
        assert skills.matching("deploy the service") == ("deploy",)

    def test_files_in_the_conversation_count_too(self, tmp_path: Path) -> None:
        text = "---\nname: sql\ndescription: tune queries\nextensions: [.sql]\n---\n"
        add(tmp_path, "sql", text)
        skills = SessionSkills(read_skills(tmp_path))
        assert skills.matching("hello", (".sql", ".py")) == ("sql",)
        assert skills.matching("hello", (".py",)) == ()


class TestLoading:
    @pytest.fixture
    def skills(self, tmp_path: Path) -> SessionSkills:
        folder = good(tmp_path, "review", "review code changes")
        (folder / "list.txt").write_text("1. read\n")
        (folder / "out").symlink_to("../../secret")
        (tmp_path.parent / "secret").write_text("secret")
        return SessionSkills(read_skills(tmp_path))

    def test_text_comes_once_with_its_event(self, skills: SessionSkills) -> None:
        first, second = loaded(skills, "review"), loaded(skills, "review")
        assert text(first) == "# How\n\nDo it well."
        (event,) = first.events
        assert isinstance(event, SkillLoaded)
        assert (event.skill_id, event.load_reason, event.triggered_by_tool_use_id) == (
            "review",
            "on_demand",
            "tu_9",
        )
        assert event.skill_version.startswith("sha256:")
        assert event.load_size_tokens > 0
        assert event.source == "home/skills/review"
        assert (text(second), second.events) == ("`review` is loaded already: see above", ())

    def test_skill_that_the_message_called_for_was_suggested(self, skills: SessionSkills) -> None:
        assert skills.matching("review the code") == ("review",)
        (event,) = loaded(skills, "review").events
        assert isinstance(event, SkillLoaded)
        assert event.load_reason == "auto_suggested"

    def test_changed_skill_is_loaded_again(self, skills: SessionSkills, tmp_path: Path) -> None:
        loaded(skills, "review")
        path = tmp_path / "review" / "SKILL.md"
        path.write_text(path.read_text() + "More.\n")
        assert text(loaded(skills, "review")).endswith("More.")

    def test_file_beside_it_is_given(self, skills: SessionSkills) -> None:
        assert text(loaded(skills, "review", "list.txt")) == "1. read\n"

    @pytest.mark.parametrize("file", ["../../secret", "out", "/etc/passwd"])
    def test_file_outside_its_folder_is_refused(self, skills: SessionSkills, file: str) -> None:
        with pytest.raises(CallFailed) as caught:
            loaded(skills, "review", file)
        assert caught.value.error_class == "permission_denied"

    def test_unknown_skill_is_told_with_the_nearest(self, skills: SessionSkills) -> None:
        with pytest.raises(CallFailed, match="there is no skill `reveiw`: did you mean `review`"):
            loaded(skills, "reveiw")

    def test_prompt_lists_names_and_descriptions_only(self, skills: SessionSkills) -> None:
        prompted = skills.prompt()
        assert "- review: review code changes" in prompted.text
        assert "Do it well" not in prompted.text
        assert prompted.events == ()

    def test_skill_that_is_always_there_is_in_the_prompt(self, tmp_path: Path) -> None:
        add(tmp_path, "tone", "---\nname: tone\ndescription: x\nalways: true\n---\nBe brief.\n")
        skills = SessionSkills(read_skills(tmp_path))
        prompted = skills.prompt()
        assert "Be brief." in prompted.text
        (event,) = prompted.events
        assert isinstance(event, SkillLoaded)
        assert (event.load_reason, event.triggered_by_tool_use_id) == ("always", None)
        assert "loaded already" in text(loaded(skills, "tone"))
