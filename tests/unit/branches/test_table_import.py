"""Decision tables from DMN and CSV, and the cells they are made of."""

from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest

from pointsman.branches.compiled import compile_policy, plain
from pointsman.branches.decide import decide
from pointsman.branches.dmn.csv_table import csv_decision
from pointsman.branches.dmn.document import dmn_decisions
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import branch_policy, read_document
from pointsman.branches.trace import BranchOutcome
from pointsman.errors import DocumentError
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.unary import condition_of, path_of
from pointsman.kernel.document import Document

NAMESPACE = "https://www.omg.org/spec/DMN/20230324/MODEL/"


def read_dmn(text: bytes, source: str, **given: Any) -> Document:
    return dmn_decisions(text, source, **given).document


def decided(document: Document, context: dict[str, Any]) -> BranchOutcome:
    policy = branch_policy([read_document(document)])
    facts = read_facts(policy.decisions[0].id, context)
    return decide(compile_policy(policy), facts)[0]


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("-", ""),
        ("", ""),
        (">= 18", "x >= 18"),
        ("<.5", "x < 0.5"),
        ('"Low"', "x == 'Low'"),
        ('= "Low"', "x == 'Low'"),
        ("!= 3", "x != 3"),
        ('"Medium","Low"', "x in ['Medium', 'Low']"),
        ("true", "x == true"),
        ("[18..65)", "(x >= 18 and x < 65)"),
        ("]18..65[", "(x > 18 and x < 65)"),
        ("(0..1.5]", "(x > 0 and x <= 1.5)"),
        ("< 1, > 9, 5", "(x == 5 or x < 1 or x > 9)"),
        ('not("High")', "not (x == 'High')"),
        ("not([1..2], 7)", "not ((x == 7 or (x >= 1 and x <= 2)))"),
        ("-3", "x == -3"),
        ('"it\'s"', "x == 'it\\'s'"),
        ('"a \\"b\\""', "x == 'a \"b\"'"),
        ("null", "x == null"),
        ('>= date("2026-01-31")', "parse(x) >= parse('2026-01-31')"),
        (
            '[date("2026-01-01")..date("2026-02-01"))',
            "(parse(x) >= parse('2026-01-01') and parse(x) < parse('2026-02-01'))",
        ),
        ("> limit", "x > limit"),
    ],
)
def test_cells_become_conditions(cell: str, wanted: str) -> None:
    assert condition_of("x", cell, names={"limit"}) == wanted


@pytest.mark.parametrize("cell", ["Age", "f(1)", "[1..", "[1..2", "< ", "1 2", "not(1", "1,", "@",
                                  'time("08:00:00")', "x" * 5_000])  # fmt: skip
def test_cells_with_names_or_functions_are_refused(cell: str) -> None:
    with pytest.raises(ExpressionRefused):
        condition_of("x", cell)


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("critical", "x == 'critical'"),
        ("needs polish, low", "x in ['needs polish', 'low']"),
        ("> 2", "x > 2"),
        ("3", "x == 3"),
        ("not(low)", "not (x == 'low')"),
        ("true", "x == true"),
        ("stage-1", "x == 'stage-1'"),
    ],
)
def test_a_spreadsheet_may_leave_quotes_out(cell: str, wanted: str) -> None:
    assert condition_of("x", cell, is_bare=True) == wanted


def test_column_names_are_paths() -> None:
    assert path_of("input.severity") == "input.severity"
    assert path_of("Applicant Age") == "context['Applicant Age']"
    assert path_of("Applicant.Birth Date") == "context['Applicant']['Birth Date']"
    with pytest.raises(ExpressionRefused):
        path_of("count(x) > 1")


NAMED = "a column tests one value by its name"
CSV = b"""input.severity,input.attempts,target,label,priority
critical,> 2,stage-human,Critical + Retried,1
critical,-,stage-senior,Critical,2

"low, medium",[0..1],stage-rework,"Small, few",3
"""


def test_a_csv_table_decides() -> None:
    document = csv_decision(CSV, "t.csv", "escalation", default="stage-continue")
    assert decided(document, {"severity": "critical", "attempts": 3}).selected_labels == (
        "Critical + Retried",
    )
    assert decided(document, {"severity": "medium", "attempts": 1}).selected_targets == (
        "stage-rework",
    )
    assert decided(document, {"severity": "none", "attempts": 1}).selected_targets == (
        "stage-continue",
    )


def test_outputs_of_a_csv_table_are_numbers_where_they_look_like_some() -> None:
    text = b"a,target,output\n1,x,0.5\n>1,y,2\n<1,z,some text\n"
    document = csv_decision(text, "t.csv", "d", hit_policy="collect")
    assert plain(decided(document, {"a": 1}).output) == [Decimal("0.5")]
    assert plain(decided(document, {"a": 0}).output) == ["some text"]


def test_every_mistake_of_a_csv_table_is_listed_at_its_line() -> None:
    text = b"a,f(b),label\n1,2\nfoo(,1,x\n1,f(2),y\n"
    with pytest.raises(DocumentError) as caught:
        csv_decision(text, "t.csv", "d")
    assert [str(each) for each in caught.value.problems] == [
        "t.csv:1:1: config.invalid_value: the column `target` is missing",
        f"t.csv:1:1: config.invalid_value: `f(b)` is not a name ({NAMED})",
        "t.csv:2:1: config.invalid_value: this row has 2 cells, the table 3 columns",
        "t.csv:3:1: config.invalid_value: cell 1: column 4: unexpected `(`",
        "t.csv:4:1: config.invalid_value: cell 2: column 2: unexpected `(`",
    ]


@pytest.mark.parametrize("text", [b"", b"\n\n", b'a,target\n"x,y\n', b"\xff\xfe"])
def test_a_file_that_is_no_table_is_refused(text: bytes) -> None:
    with pytest.raises(DocumentError):
        csv_decision(text, "t.csv", "d")


def dmn(policy: str, inputs: list[Any], outputs: list[Any], rules: list[list[str]]) -> bytes:
    """Write a DMN file with one table; an input or output is (name, type, values)."""

    def column(kind: str, name: str, type_: str, listed: str) -> str:
        values = f"<{kind}Values><text>{escape(listed)}</text></{kind}Values>" if listed else ""
        if kind == "output":
            return f'<output name={quoteattr(name)} typeRef="{type_}">{values}</output>'
        expression = f'<inputExpression typeRef="{type_}"><text>{name}</text></inputExpression>'
        return f"<input>{expression}{values}</input>"

    def entry(kind: str, text: str) -> str:
        return f"<{kind}Entry><text>{escape(text)}</text></{kind}Entry>"

    body = "".join(column("input", *each) for each in inputs)
    body += "".join(column("output", *each) for each in outputs)
    for rule in rules:
        cells = [entry("input", each) for each in rule[: len(inputs)]]
        cells += [entry("output", each) for each in rule[len(inputs) :]]
        body += "\n<rule>" + "".join(cells) + "</rule>"
    return (
        f'<definitions xmlns="{NAMESPACE}" xmlns:x="urn:x"><x:extra><x:deep/></x:extra>'
        f'<inputData name="Age"/><decision id="loan" name="Loan"><decisionTable {policy}>'
        f"{body}</decisionTable></decision></definitions>"
    ).encode()


AGE, RISK = ("Age", "number", ""), ("Risk", "string", '"High","Low","Medium"')
STATUS = ("Status", "string", '"Approved","Declined"')
RULES = [
    [">=18", '"Medium","Low"', '"Approved"', '"Basic"'],
    ["<18", "-", '"Declined"', '"Standard"'],
    ["-", '"High"', '"Approved"', '"Standard"'],
    [">=60", "-", '"Declined"', '"Basic"'],
]


@pytest.mark.parametrize(
    ("policy", "context", "wanted"),
    [
        ("UNIQUE", {"Age": 30, "Risk": "Low"}, {"Status": "Approved", "Rate": "Basic"}),
        ("UNIQUE", {"Age": 10, "Risk": "High"}, None),
        ("FIRST", {"Age": 10, "Risk": "High"}, {"Status": "Declined", "Rate": "Standard"}),
        ("PRIORITY", {"Age": 10, "Risk": "High"}, {"Status": "Approved", "Rate": "Standard"}),
        ("PRIORITY", {"Age": 70, "Risk": "Low"}, {"Status": "Approved", "Rate": "Basic"}),
        ("ANY", {"Age": 10, "Risk": "High"}, None),
        ("ANY", {"Age": 70, "Risk": "x"}, {"Status": "Declined", "Rate": "Basic"}),
        (
            "RULE ORDER",
            {"Age": 70, "Risk": "High"},
            [{"Status": "Approved", "Rate": "Standard"}, {"Status": "Declined", "Rate": "Basic"}],
        ),
        (
            "OUTPUT ORDER",
            {"Age": 10, "Risk": "High"},
            [
                {"Status": "Approved", "Rate": "Standard"},
                {"Status": "Declined", "Rate": "Standard"},
            ],
        ),
        ("COLLECT", {"Age": 30, "Risk": "Low"}, [{"Status": "Approved", "Rate": "Basic"}]),
    ],
)
def test_dmn_tables_decide_by_their_hit_policy(
    policy: str, context: dict[str, Any], wanted: Any
) -> None:
    outputs = [STATUS, ("Rate", "string", "")]
    text = dmn(f'hitPolicy="{policy}"', [AGE, RISK], outputs, RULES)
    assert plain(decided(read_dmn(text, "loan.dmn"), context).output) == wanted


@pytest.mark.parametrize(
    ("aggregation", "wanted"), [("SUM", Decimal("0.75")), ("MIN", Decimal("0.25")),
                                ("MAX", Decimal("0.5")), ("COUNT", 2)]
)  # fmt: skip
def test_dmn_tables_collect_numbers(aggregation: str, wanted: Any) -> None:
    policy = f'hitPolicy="COLLECT" aggregation="{aggregation}"'
    rules = [[">=18", "0.5"], [">=60", "0.25"], ["<18", "0"]]
    text = dmn(policy, [AGE], [("Fee", "number", "")], rules)
    outcome = decided(read_dmn(text, "fee.dmn"), {"Age": 70})
    assert plain(outcome.output) == wanted
    assert outcome.selected_targets == ("0.5", "0.25")


def test_a_single_output_is_the_target_and_unique_is_the_policy_where_none_is_named() -> None:
    text = dmn("", [AGE], [("Status", "string", "")], [[">=18", '"grown"'], ["<18", '"young"']])
    outcome = decided(read_dmn(text, "a.dmn"), {"Age": 18})
    assert (outcome.selected_targets, plain(outcome.output)) == (("grown",), "grown")
    assert decided(read_dmn(text, "a.dmn", default="x"), {}).selected_targets == ("x",)


def problems(text: bytes) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        read_document(read_dmn(text, "a.dmn"))
    return [str(each) for each in caught.value.problems]


def test_every_mistake_of_a_dmn_table_is_listed_at_its_line() -> None:
    rules = [["f(1)", '"a"'], ["1", "x + 1"], ["1"], ["2", '"a","b"']]
    found = problems(dmn("", [AGE], [("S", "string", "")], rules))
    assert [each.partition(": config.invalid_value: ")[::2] for each in found] == [
        ("a.dmn:2:1", "cell 1: column 1: `f` is not a literal (names and functions are not read)"),
        ("a.dmn:3:1", "output `x + 1`: this cannot be read"),
        ("a.dmn:4:1", "a rule must have one entry for every input and output"),
        ("a.dmn:5:1", 'output `"a","b"`: more than one value'),
    ]


def test_kinds_of_columns_are_checked() -> None:
    (found,) = problems(dmn("", [AGE], [("S", "string", "")], [['"old"', '"a"']]))
    assert found.startswith("a.dmn:2:1: config.invalid_value: column")
    assert "a number is never equal to a text" in found


def test_a_computed_column_and_a_decision_that_is_no_table_are_refused() -> None:
    (found, *_) = problems(dmn("", [("Age + 1", "number", "")], [("S", "", "")], [["1", "1"]]))
    assert "is not a name" in found
    other = f'<definitions xmlns="{NAMESPACE}"><decision id="d"/></definitions>'.encode()
    assert "`d` is not a decision table" in problems(other)[0]
    empty = f'<definitions xmlns="{NAMESPACE}"/>'.encode()
    assert "there is no decision" in problems(empty)[0]


def test_the_tables_that_can_be_read_are_and_the_rest_is_listed() -> None:
    one = dmn("", [("Age", "number", "")], [("S", "", "")], [["> Limit", '"old"']]).decode()
    head, _, rest = one.partition(">")
    if head.startswith("<?xml"):
        first, _, rest = rest.partition(">")
        head = f"{head}>{first}"
    text = (
        f'{head}><inputData id="i" name="Limit"/>'
        '<decision id="literal"><literalExpression><text>1</text></literalExpression></decision>'
        f"{rest}"
    )
    found = dmn_decisions(text.encode(), "t.dmn")
    assert [each.message for each in found.unread] == ["`literal` is not a decision table"]
    outcome = decided(found.document, {"Age": 70, "Limit": 65})
    assert outcome.selected_targets == ("old",)
    assert decided(found.document, {"Age": 60, "Limit": 65}).is_default


def test_a_cell_compares_dates_as_dates() -> None:
    given = dmn("", [("Since", "date", "")], [("S", "", "")], [['< date("2026-01-31")', '"old"']])
    document = read_dmn(given, "t.dmn")
    assert not decided(document, {"Since": "2026-01-30T23:59:59Z"}).is_default
    assert decided(document, {"Since": "2026-01-31"}).is_default
    with pytest.raises(ExpressionRefused, match="is no date"):
        condition_of("x", 'date("soon")')


BOMB = b"""<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<definitions>&b;</definitions>"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "a document type is not allowed"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "a document type is not allowed"),
        (b"<definitions/>", "is not DMN 1.3, 1.4 or 1.5"),
        (f'<definitions xmlns="{NAMESPACE}"><b></definitions>'.encode(), "not valid XML"),
        (b"", "not valid XML"),
        (b"not xml", "not valid XML"),
        (f'<definitions xmlns="{NAMESPACE}">'.encode() + b"<a>" * 100, "nested too deeply"),
        (f'<definitions xmlns="{NAMESPACE}">'.encode() + b"<a/>" * 30_000, "too many elements"),
        (b" " * (1024 * 1024 + 1), "larger than"),
    ],
)
def test_hostile_xml_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read_dmn(text, "a.dmn")
