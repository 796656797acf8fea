"""Parameters are overridden by texts; what does not fit is named, with what would."""

from __future__ import annotations

from datetime import date

import pytest

from churnbench.errors import UsageError
from churnbench_sam._params import Parameters, with_overrides
from churnbench_sam._presets import PRESETS

REFERENCE = PRESETS["reference"].parameters


def test_texts_become_values_of_the_field() -> None:
    texts = {"users": "500", "hires_per_day": "2", "start": "2023-02-28", "terms_months": "12, 24"}
    params = with_overrides(REFERENCE, texts)
    assert (params.users, params.hires_per_day, params.start, params.terms_months) == (
        500,
        2.0,
        date(2023, 2, 28),
        (12, 24),
    )
    assert isinstance(params.hires_per_day, float)
    assert params.days == REFERENCE.days


def test_no_overrides_change_nothing() -> None:
    assert with_overrides(REFERENCE, {}) == REFERENCE


def test_an_unknown_name_lists_all_valid_ones() -> None:
    with pytest.raises(UsageError) as error:
        with_overrides(REFERENCE, {"hire_rate": "1"})
    assert "'hire_rate'" in str(error.value)
    assert all(name in str(error.value) for name in Parameters.__struct_fields__)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("users", "-1"),
        ("users", "many"),
        ("users", "1.5"),
        ("users", ""),
        ("users", "1" * 40),
        ("days", "0"),
        ("hires_per_day", "nan"),
        ("hires_per_day", "inf"),
        ("hires_per_day", "-0.1"),
        ("skew_share", "1.01"),
        ("start", "2024-13-01"),
        ("start", "yesterday"),
        ("terms_months", ""),
        ("terms_months", "12,x"),
        ("terms_months", "0"),
    ],
)
def test_a_text_that_is_no_value_is_named_in_one_line(name: str, text: str) -> None:
    with pytest.raises(UsageError, match="expected") as error:
        with_overrides(REFERENCE, {name: text})
    assert str(error.value).startswith(f"{name} cannot be {text!r}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"session_minutes_low": "180"}, "session_minutes_high"),
        ({"api_calls_high": "1", "api_calls_low": "1"}, "api_calls_high"),
        ({"price_low_usd": "501"}, "price_high_usd"),
        ({"users": "0"}, "licenses"),
        ({"days": "99999999"}, "days"),
    ],
)
def test_values_that_do_not_go_together_are_refused(texts: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        with_overrides(REFERENCE, texts)


def test_values_are_judged_together_not_one_by_one() -> None:
    assert with_overrides(REFERENCE, {"users": "0", "licenses": "0"}).users == 0
