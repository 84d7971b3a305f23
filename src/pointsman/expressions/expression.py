"""An expression that was read, checked and compiled once, and is evaluated many times."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from pointsman.expressions.checking import FREE, Declared, check_condition, kinds_of
from pointsman.expressions.code import ARGUMENTS, CodeBuilder, function
from pointsman.expressions.evaluate import EvaluationResult, EvaluationScope, RootNames, evaluate
from pointsman.expressions.functions import Kinds
from pointsman.expressions.grammar import parse_expression
from pointsman.expressions.syntax import Node, Path, paths
from pointsman.expressions.values import LACKS, STEPS, Missing, Value

_IN_CONDITION = RootNames()
_IN_INPUT = RootNames(has_input=False)


class Expression:
    """One expression; `reads` are the values of the context that it looks at.

    `fast` takes the parts of a scope and a meter. It returns the value, or raises one of `LACKS`;
    that of a condition returns true or false and nothing else.
    """

    def __init__(
        self, text: str, tree: Node, kinds: Kinds, *, has_input: bool, is_condition: bool
    ) -> None:
        self.text = text
        self.tree = tree
        self.kinds = kinds
        self.reads: tuple[Path, ...] = paths(tree)
        self._names = _IN_CONDITION if has_input else _IN_INPUT
        self._is_condition = is_condition

    @cached_property
    def fast(self) -> Callable[..., Value | Missing]:
        """The generated code."""
        return self._code[0]

    @cached_property
    def is_metered(self) -> bool:
        """Whether the generated code counts steps."""
        return self._code[1]

    @cached_property
    def _code(self) -> tuple[Callable[..., Value | Missing], bool]:
        code = CodeBuilder(has_input=self._names.has_input)
        found = code.truth(self.tree) if self._is_condition else code.value(self.tree)
        return function([ast.Return(found)], code.bound, ARGUMENTS), code.is_metered

    def compile(self) -> Expression:
        """Generate the code now: evaluating changes nothing from here on."""
        self.fast, self.is_metered  # noqa: B018 - cached properties
        return self

    def answer(self, scope: EvaluationScope) -> EvaluationResult:
        """Return the value, or say why there is none. Never raises."""
        try:
            meter = [STEPS] if self.is_metered else None
            found = self.fast(scope.context, scope.whole, scope.input, meter)
            if not isinstance(found, Missing):
                return EvaluationResult(found)
        except LACKS:
            pass
        return self.carefully(scope)

    def carefully(self, scope: EvaluationScope) -> EvaluationResult:
        """Return the answer of the careful way."""
        return evaluate(self.tree, scope, self._names)


def condition(text: str, declared: Declared = FREE) -> Expression:
    """Read a condition, or raise `ExpressionRefused` with its place."""
    tree = parse_expression(text)
    check_condition(tree, text, declared)
    return Expression(text, tree, ("boolean",), has_input=True, is_condition=True)


def value(text: str, declared: Declared = FREE, *, has_input: bool = False) -> Expression:
    """Read an expression for a value, such as a decision's input."""
    tree = parse_expression(text)
    kinds = kinds_of(tree, text, declared, has_input=has_input)
    return Expression(text, tree, kinds, has_input=has_input, is_condition=False)
