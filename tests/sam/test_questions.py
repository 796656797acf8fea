"""Questions in words."""

from __future__ import annotations

import string

import msgspec
import pytest

from churnbench_sam import DOMAIN
from churnbench_sam._questions import WORDINGS
from tests.sam.brute import day
from tests.sam.test_tasks import published_tasks

T = day("2024-04-27")
WINDOWS = {"idle_days", "days_back", "window_days"}


@pytest.mark.parametrize("measure", sorted(DOMAIN.measures))
def test_every_wording_names_every_parameter_and_the_day(measure: str) -> None:
    assert len(WORDINGS[measure]) >= 3
    for wording in WORDINGS[measure]:
        named = {field for _, field, _, _ in string.Formatter().parse(wording) if field}
        parameters = set(DOMAIN.measures[measure].parameters)
        windows = parameters & WINDOWS
        assert parameters - windows <= named
        assert not windows or named & {*windows, "since"}
        assert "at" in named


def test_the_same_task_is_asked_in_the_same_words_and_all_wordings_occur() -> None:
    tasks = published_tasks()
    texts = [DOMAIN.question(task, T) for task in tasks]
    assert texts == [DOMAIN.question(task, T) for task in tasks]
    assert all("2024-04-27" in text and "{" not in text for text in texts)
    for measure, wordings in WORDINGS.items():
        params = {
            name: {str: "x_000", int: 7, float: 9.5}[kind] for name, kind in DOMAIN.measures[measure].parameters.items()
        }
        task = msgspec.structs.replace(tasks[0], measure=measure, params=params)
        renamed = [msgspec.structs.replace(task, task_id=f"t{number}") for number in range(60)]
        assert len({DOMAIN.question(other, T) for other in renamed}) == len(wordings)


def test_a_window_may_be_told_as_a_date() -> None:
    task = next(task for task in published_tasks() if "window_days" in task.params)
    renamed = [
        msgspec.structs.replace(task, task_id=f"t{number}", params={**task.params, "window_days": 30})
        for number in range(30)
    ]
    assert any("2024-03-28" in DOMAIN.question(other, T) for other in renamed)
