"""What a turn looks like: structure, text vector, and how alike two of them are."""

import hashlib

import msgspec
import pytest

from pointsman.kernel.number import Billionths, billionths
from pointsman.turns.learning.fingerprint import (
    BUCKET_WEIGHT,
    DIMENSIONS,
    FINGERPRINT_FORM,
    IMAGES_WEIGHT,
    MOST_CHARS,
    MOST_MEMBERS,
    PEAK,
    SET_WEIGHTS,
    Fingerprint,
    Surroundings,
    cosine,
    fingerprint_id,
    fingerprint_of,
    hashed_vector,
    intent_tags,
    likeness,
    path_bucket,
    similarity,
    token_bucket,
)

PLAIN = Fingerprint()


def numbers(vector: bytes) -> list[int]:
    return list(memoryview(vector).cast("b"))


def test_sets_are_sorted_and_unique_however_they_are_given() -> None:
    one = Fingerprint(tool_names=("write", "bash", "write"))
    assert one.tool_names == ("bash", "write")
    assert one == Fingerprint(tool_names=("bash", "write"))
    assert fingerprint_id(one, b"") == fingerprint_id(
        Fingerprint(tool_names=("write", "bash")), b""
    )


def test_signature_is_the_content_id_of_the_canonical_bytes() -> None:
    body = FINGERPRINT_FORM.encode(PLAIN)
    assert fingerprint_id(PLAIN, b"") == "sha256:" + hashlib.sha256(body).hexdigest()
    assert FINGERPRINT_FORM.decode(body) == PLAIN


def test_a_fingerprint_is_named_by_its_text_too() -> None:
    vector = hashed_vector("hello")
    assert fingerprint_id(PLAIN, vector) not in {
        fingerprint_id(PLAIN, b""),
        fingerprint_id(PLAIN, b"x"),
    }


def test_sets_are_bounded_and_half_characters_can_be_written() -> None:
    many = Fingerprint(tool_names=tuple(f"t{each:03d}" for each in range(100)))
    assert many.tool_names == tuple(f"t{each:03d}" for each in range(MOST_MEMBERS))
    half = Fingerprint(file_path_buckets=("\udcff",), workload_id="\udcff")
    assert (half.file_path_buckets, half.workload_id) == (("\\udcff",), "\\udcff")


def test_fingerprint_is_taken_from_message_and_surroundings() -> None:
    around = Surroundings(
        file_extensions=(".SQL", ".py", ".sql"),
        file_paths=("src/a/b.py", "tests/t.py", "README.md"),
        tool_names=("read",),
        side_effect_classes=("read",),
        has_images=True,
        has_tool_calls_in_history=True,
        estimated_input_tokens=12_000,
        workspace_path="/w",
        workload_id="nightly",
    )
    found = fingerprint_of("please debug this", around)
    assert found == Fingerprint(
        file_extensions=(".py", ".sql"),
        file_path_buckets=(".", "src", "tests"),
        tool_names=("read",),
        side_effect_classes=("read",),
        has_images=True,
        has_tool_calls_in_history=True,
        estimated_input_tokens_bucket=2,
        intent_tags=("debug",),
        workspace_hash="sha256:" + hashlib.sha256(b"/w").hexdigest(),
        workload_id="nightly",
    )
    assert fingerprint_of("", Surroundings()) == PLAIN


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Commit this and stage the rest", ("commit",)),
        ("git  add everything", ("commit",)),
        ("SIMPLIFY the loop, then rename it", ("refactor",)),
        ("an architectural design", ("architecture",)),
        ("the stack trace says it fails", ("debug",)),
        ("write docs for the unit test", ("doc", "test")),
        ("run e2e and pytest", ("test",)),
        ("testing, contests, committed, failure, bugs, Fehlersuche", ()),
        ("git\nwould add it", ()),
        ("", ()),
    ],
)
def test_intents_are_whole_words_in_any_case(text: str, tags: tuple[str, ...]) -> None:
    assert intent_tags(text) == tags


def test_middle_of_a_very_long_text_is_not_looked_at() -> None:
    half = MOST_CHARS // 2
    edges = "refactor " + "x" * (half - 9) + "y" * half + " commit " + "z" * (half - 8)
    assert intent_tags("x" * half + " debug " + "y" * half) == ()
    assert intent_tags(edges) == ("commit", "refactor")
    assert hashed_vector("a" * half + "b" * half + "c" * half) == hashed_vector(
        "a" * half + "different" * half + "c" * half
    )


def test_intents_are_the_same_by_another_engine() -> None:
    re2 = pytest.importorskip("re2")
    fixed = (
        r"(?i)\b(?:(?P<commit>commit|stage|git\s+add)"
        r"|(?P<debug>debug|bug|error|stack\s+trace|broken|fails?)"
        r"|(?P<doc>docs?|document|readme|comment|docstring))\b"
    )
    for text in ("Commit the bug fix", "docs: broken\tSTACK  TRACE", "undocumented commits"):
        found = {match.lastgroup for match in re2.finditer(fixed, text)}
        assert found == set(intent_tags(text))


@pytest.mark.parametrize(
    ("path", "bucket"),
    [
        ("src/a.py", "src"),
        ("./src/a.py", "src"),
        ("/src/a.py", "src"),
        ("docs\\a.md", "docs"),
        ("a.py", "."),
        ("", "."),
    ],
)
def test_path_bucket_is_the_top_folder(path: str, bucket: str) -> None:
    assert path_bucket(path) == bucket


def test_token_buckets_end_below_powers_of_ten() -> None:
    counts = [0, 999, 1_000, 9_999, 10_000, 99_999, 100_000]
    assert [token_bucket(each) for each in counts] == [0, 0, 1, 1, 2, 2, 3]


def test_weights_sum_to_one() -> None:
    assert sum(SET_WEIGHTS.values()) + BUCKET_WEIGHT + IMAGES_WEIGHT == 10**9


def test_equal_structures_are_wholly_alike_and_opposite_ones_not_at_all() -> None:
    full = Fingerprint((".py",), ("src",), ("read",), ("read",), True, True, 3, ("doc",))
    assert similarity(full, full) == similarity(PLAIN, PLAIN) == 10**9
    assert similarity(full, PLAIN) == similarity(PLAIN, full) == 0


@pytest.mark.parametrize(
    ("field", "weight"),
    [
        ("intent_tags", "0.30"),
        ("file_extensions", "0.20"),
        ("tool_names", "0.15"),
        ("file_path_buckets", "0.10"),
        ("side_effect_classes", "0.10"),
    ],
)
def test_each_set_weighs_by_what_is_shared(field: str, weight: str) -> None:
    left = msgspec.structs.replace(PLAIN, **{field: ("a", "b", "c")})
    right = msgspec.structs.replace(PLAIN, **{field: ("b", "c", "d")})
    whole = billionths(weight)
    assert similarity(left, right) == 10**9 - whole // 2
    assert similarity(left, PLAIN) == 10**9 - whole


def test_bucket_images_and_nothing_else_weigh() -> None:
    def changed(**changes: object) -> Fingerprint:
        return msgspec.structs.replace(PLAIN, **changes)

    assert similarity(PLAIN, changed(estimated_input_tokens_bucket=1)) == billionths("0.9")
    assert similarity(PLAIN, changed(has_images=True)) == billionths("0.95")
    assert similarity(PLAIN, changed(workspace_hash="w", has_tool_calls_in_history=True)) == 10**9


def test_shared_thirds_are_rounded_share_by_share() -> None:
    left = Fingerprint(tool_names=("a",), file_extensions=("a",))
    right = Fingerprint(tool_names=("a", "b", "c"), file_extensions=("a", "b", "c"))
    assert similarity(left, right) == 650_000_000 + 50_000_000 + 66_666_667


def test_workload_weighs_most_where_both_name_theirs() -> None:
    def of(workload: str | None, *tags: str) -> Fingerprint:
        return Fingerprint(intent_tags=tags, workload_id=workload)

    assert similarity(of("a"), of("a", "doc")) == billionths("0.955")
    assert similarity(of("a"), of("b")) == billionths("0.15")
    assert similarity(of("a"), of(None)) == similarity(of(None), of("b")) == 10**9


def test_vector_is_scaled_to_one_length_in_signed_bytes() -> None:
    vector = hashed_vector("Refactor the parser so that errors name the line")
    squares = sum(each * each for each in numbers(vector))
    assert len(vector) == DIMENSIONS
    assert max(map(abs, numbers(vector))) <= PEAK
    assert abs(squares - PEAK * PEAK) < PEAK * PEAK // 10
    assert {-1, 1} == {1 if each > 0 else -1 for each in numbers(vector) if each}


def test_a_text_of_one_character_has_one_gram() -> None:
    assert sorted(map(abs, numbers(hashed_vector("x"))))[-2:] == [0, PEAK]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_no_text_has_no_vector(text: str) -> None:
    assert hashed_vector(text) == b""


def test_case_and_spacing_make_no_difference() -> None:
    assert hashed_vector("Hello,  World\n") == hashed_vector("hello, world")


def test_vectors_are_the_same_on_every_machine_and_python() -> None:
    texts = ["Hello, World", "a", "Grüße, 世界 \U0001f682", "\ud800 half", "select * from t " * 400]
    data = b"".join(hashed_vector(each) for each in texts)
    assert hashlib.sha256(data).hexdigest() == (
        "eba8482df8192c820f7fbcb5169901f4eae87c3f45a4793fcff57a1e20a5eaa4"
    )


def test_like_texts_are_nearer_than_unlike_ones() -> None:
    asked = hashed_vector("refactor the parser so that error messages name the line")
    near = hashed_vector("refactor the lexer so that error messages name the column")
    far = hashed_vector("what is the capital of France?")
    assert cosine(asked, asked) == 10**9
    assert cosine(asked, near) > billionths("0.6") > billionths("0.3") > cosine(asked, far)


def signed(*values: int) -> bytes:
    return bytes(each % 256 for each in values)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (signed(1, 0), signed(0, 1), "0"),
        (signed(3, 4), signed(-3, -4), "-1"),
        (signed(1, 0), signed(1, 1), "0.707106781"),
        (signed(3, 4), signed(4, 3), "0.96"),
        (signed(1, 1), signed(0, 0), "0"),
        (signed(0, 0), signed(0, 0), "0"),
    ],
)
def test_cosine_is_rounded_to_billionths(left: bytes, right: bytes, expected: str) -> None:
    assert cosine(left, right) == billionths(expected)


def test_likeness_blends_text_and_structure() -> None:
    one, other = signed(3, 4), signed(4, 3)
    assert likeness(PLAIN, PLAIN, one, other) == billionths("0.976")
    images = Fingerprint(has_images=True)
    assert likeness(PLAIN, images, one, one) == billionths("0.98")


def test_likeness_falls_back_to_structure_without_two_vectors_of_one_length() -> None:
    images = Fingerprint(has_images=True)
    for pair in ((b"", b""), (signed(1), b""), (b"", signed(1)), (signed(1), signed(1, 1))):
        assert likeness(PLAIN, images, *pair) == Billionths(950_000_000)


def test_texts_that_point_apart_have_nothing_in_common() -> None:
    assert likeness(PLAIN, PLAIN, signed(1), signed(-1)) == billionths("0.4")
