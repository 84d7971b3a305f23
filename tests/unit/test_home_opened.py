"""A home is found, made and opened; keys and identities that cannot be used are told."""

from pathlib import Path

import pytest

from pointsman import HomeError, home_path
from pointsman.testing import a_home, a_turn


def test_the_home_is_the_one_given_else_of_the_environment_else_in_the_users_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POINTSMAN_HOME", "/x/y")
    assert home_path("/a") == Path("/a")
    assert home_path() == Path("/x/y")
    monkeypatch.delenv("POINTSMAN_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert home_path() == Path("/h/.pointsman")


def test_a_key_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        key = pointsman.home.path / "keys" / "signing"
        key.chmod(0o644)
        with pytest.raises(HomeError) as caught:
            a_turn(pointsman)
    assert caught.value.hint.startswith("chmod 600")


@pytest.mark.parametrize("content", ["zz", "00", ""])
def test_a_key_that_is_no_key_is_refused(tmp_path: Path, content: str) -> None:
    with a_home(tmp_path / "home") as pointsman:
        (pointsman.home.path / "keys" / "content").write_text(content)
        with pytest.raises(HomeError, match="key"):
            a_turn(pointsman)


def test_another_signing_key_is_refused(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        (pointsman.home.path / "keys" / "signing").write_text("11" * 32)
        with pytest.raises(HomeError, match="not the one this home is known by"):
            a_turn(pointsman)


def test_a_home_whose_identity_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        a_turn(pointsman)
    (tmp_path / "home" / "identity.json").unlink()
    with pytest.raises(HomeError, match=r"identity\.json is gone"):
        a_home(tmp_path / "home")


def test_a_broken_identity_is_told(tmp_path: Path) -> None:
    a_home(tmp_path / "home").close()
    (tmp_path / "home" / "identity.json").write_text("{")
    with pytest.raises(HomeError, match="identity"):
        a_home(tmp_path / "home")


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError) as caught:
        a_home(tmp_path / "file" / "home")
    assert "--home" in caught.value.hint
