"""What the calculator can: four operations on decimal numbers, and nothing of the language that they are parsed with."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def calculate(expression: str) -> str:
    """The value, rounded to cents. ValueError where it has none."""
    try:
        value = float(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as fault:
        raise ValueError(type(fault).__name__) from None
    if not math.isfinite(value):
        raise ValueError("not finite")
    return str(round(value, 2))


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(left), _value(right))
    raise ValueError("no arithmetic")
