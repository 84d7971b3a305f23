"""What users may import, and the errors they may catch."""

import pickle

import pytest

import pointsman
from pointsman import errors
from pointsman.errors import DocumentError, Place, PointsmanError, Problem


def _error_classes(kind: type[PointsmanError] = PointsmanError) -> list[type[PointsmanError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in _error_classes(sub))]


def test_the_facade_is_exactly_this_list() -> None:
    assert sorted(pointsman.__all__) == pointsman.__all__
    assert len(pointsman.__all__) <= 40
    public = {name for name in vars(pointsman) if name[0] != "_" and name[0].isupper()}
    assert public <= set(pointsman.__all__)
    assert all(hasattr(pointsman, name) for name in pointsman.__all__)


@pytest.mark.parametrize("kind", _error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_of_its_own_and_a_docstring_for_a_message(
    kind: type[PointsmanError],
) -> None:
    codes = [each.code for each in _error_classes()]
    assert codes.count(kind.code) == 1
    message = (kind.__doc__ or "").partition("\n")[0]
    assert message == message.strip()
    assert message[0].islower()
    assert (
        f"{kind.__name__} " in (errors.__doc__ or "")
        or kind is PointsmanError
        or any(
            line.rstrip().endswith(kind.__name__) for line in (errors.__doc__ or "").splitlines()
        )
    )


@pytest.mark.parametrize("kind", _error_classes(), ids=lambda kind: kind.__name__)
def test_errors_survive_the_way_between_processes(kind: type[PointsmanError]) -> None:
    if kind is DocumentError:
        error: PointsmanError = DocumentError((Problem(Place("f", 1, 2), "c", "m", "h"),))
    else:
        error = kind("message", where="here", hint="do this")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.hint) == (str(error), error.hint)


def test_an_error_says_where_which_and_what() -> None:
    error = errors.HomeError("bad", where="/home", hint="mend it")
    assert str(error) == "/home: home.unusable: bad"
    assert str(errors.LedgerUnavailable()).startswith("ledger.unavailable: the ledger cannot")


def test_a_problem_says_place_code_message_and_hint() -> None:
    problem = Problem(
        Place("routing.yaml", 7, 17), "config.unknown_key", "`x`", "did you mean `y`?"
    )
    assert str(problem) == "routing.yaml:7:17: config.unknown_key: `x` (did you mean `y`?)"
