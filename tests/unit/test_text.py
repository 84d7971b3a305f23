"""Letters, lowered the same way by every Python."""

from pointsman.kernel.columns import ascii_lower


def test_ascii_letters_are_lowered_and_no_others() -> None:
    assert ascii_lower("Straße ÄÖÜ İ AZ az 09") == "straße ÄÖÜ İ az az 09"


def test_half_a_surrogate_pair_passes_unharmed() -> None:
    assert ascii_lower("A\ud800B") == "a\ud800b"
