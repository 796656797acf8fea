"""How answers compare with gold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.domain import AnswerType
from churnbench_scorer import compare, differ, parsed


@pytest.mark.parametrize(
    ("answer_type", "value", "gold", "right"),
    [
        ("int", 3, 3, True),
        ("int", 3.0, 3, True),
        ("int", " 3 ", 3, True),
        ("int", "3.0", 3, True),
        ("int", "-3", -3, True),
        ("int", 3.2, 3, False),
        ("int", True, 1, False),
        ("int", "three", 3, False),
        ("int", 10**30 + 1, 10**30, False),
        ("float", 101.0, 100.0, True),
        ("float", 101.01, 100.0, False),
        ("float", -99.5, -100.0, True),
        ("float", "99.5", 100.0, True),
        ("float", 100, 100.0, True),
        ("float", 1e-6, 0.0, True),
        ("float", 2e-6, 0.0, False),
        ("str", "  Acme CORP ", "acme corp", True),
        ("str", "STRASSE", "straße", True),
        ("str", "acme", "acme corp", False),
        ("str", "", "", True),
    ],
)
def test_answers_compare_by_type(answer_type: AnswerType, value: Any, gold: Any, right: bool) -> None:
    assert compare(answer_type, value, gold) is right


@pytest.mark.parametrize("answer_type", ["int", "float"])
@pytest.mark.parametrize(
    "value", [None, float("nan"), float("inf"), "nan", "inf", "1e999", "", True, [1], "9" * 5000 + "x"]
)
def test_what_is_no_number_equals_nothing(answer_type: AnswerType, value: Any) -> None:
    assert parsed(answer_type, value) is None
    assert not compare(answer_type, value, value)


def test_no_answer_equals_nothing_but_two_missing_golds_do_not_differ() -> None:
    assert not compare("str", None, None)
    assert not differ("str", None, None)
    assert differ("int", None, 0)
    assert differ("int", 0, None)
    assert not differ("float", 100.4, 100.0)


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_equals_itself_and_its_text(number: float) -> None:
    kind: AnswerType = "int" if isinstance(number, int) else "float"
    assert compare(kind, number, number)
    assert compare(kind, repr(number), number)
