"""Which tests belong to a change."""

from tests.docs.scripts import script

quick = script("quick_tests")


def test_a_changed_module_brings_the_tests_that_import_it_and_its_folder() -> None:
    tests = {
        "tests/unit/test_far.py": "from pointsman.kernel.entry import Entry\n",
        "tests/gateway/test_near.py": "from pointsman.access.budgets import Budgets\n",
        "tests/unit/test_of_it.py": "from pointsman.access import book\n",
        "tests/unit/test_book.py": "import json\n",
        "tests/unit/test_own.py": "import json\n",
    }

    chosen = quick.choose_tests(["src/pointsman/access/book.py", "tests/unit/test_own.py"], tests)

    assert chosen == [
        "tests/unit/test_own.py",
        "tests/unit/test_book.py",
        "tests/unit/test_of_it.py",
        "tests/gateway/test_near.py",
    ]


def test_what_is_no_module_brings_nothing() -> None:
    assert quick.choose_tests(["README.md"], {"tests/unit/test_a.py": "import json\n"}) == []
