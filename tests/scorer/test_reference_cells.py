"""The published study scored without any store: a reader that says what its cuts say, as the registry stages them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from churnbench.clock import DAY_MS, parse_time
from churnbench.domain import Task
from churnbench.events import Event
from churnbench.records import Answer, Question, Refresh, Retrieval, Tick, Verdict
from churnbench_sam import DOMAIN
from churnbench_scorer import Gold, LedgerIndex, Summary, differ, score, summarize

T = parse_time("2024-04-27")
TASKS = [
    msgspec.json.decode(line, type=Task)
    for line in (Path(__file__).parents[1] / "data" / "reference_tasks_180.jsonl").read_bytes().splitlines()
]
CELLS = {
    "1 day, tiered": (1, "exceeds"),
    "1 day, off": (1, "off"),
    "28 days, tiered": (29, "exceeds"),
    "28 days, off": (29, "off"),
    "1 day, reaches": (1, "reaches"),
    "28 days, reaches": (29, "reaches"),
}


class Study:
    def __init__(self) -> None:
        self.events: list[Event] = list(DOMAIN.simulate(DOMAIN.presets["reference"].parameters, 42))
        self.index = LedgerIndex.of_events(self.events, DOMAIN, 3)
        self.gold = Gold(self.index, DOMAIN)
        self.known: dict[tuple[str, str], tuple[Summary, list[Verdict]]] = {}

    def walk(self, registry: str, days: int, rule: str) -> dict[str, Refresh]:
        """The last refresh of each staged table at T; documents are staged once."""
        declared = DOMAIN.registries[registry]
        last: dict[str, Refresh] = {}
        for number, at_ms in enumerate(range(T - days * DAY_MS, T + 1, DAY_MS)):
            for table, (owner, embeds) in declared.staged().items():
                age, ttl = at_ms - last[table].at_ms if table in last else None, declared.policy(owner).ttl_ms or 0
                lapsed = {"exceeds": age is not None and age > ttl, "reaches": age is not None and age >= ttl}
                if age is None or (lapsed.get(rule, False) and table != "documents"):
                    cuts = dict.fromkeys((owner, *embeds), self.index.cut_at(at_ms))
                    last[table] = Refresh("r", table, number, at_ms, cuts, owner, "replay", "", 0, 0, 0, 0, 0.0, "")
        return last

    def cell(self, registry: str, name: str) -> tuple[Summary, list[Verdict]]:
        if (registry, name) not in self.known:
            days, rule = CELLS[name]
            staged = self.walk(registry, days, rule)
            questions = [
                Question(t.task_id, t.measure, t.params, t.answer_type, t.tier, t.intent, t.template_id, "?", T)
                for t in TASKS
            ]
            answers = [self.answer(registry, task, staged) for task in TASKS]
            days_ms = range(T - days * DAY_MS, T + 1, DAY_MS)
            ticks = [Tick(number, at_ms, self.index.cut_at(at_ms)) for number, at_ms in enumerate(days_ms)]
            verdicts = score(self.index, DOMAIN, DOMAIN.registries[registry], ticks, questions, answers)
            self.known[registry, name] = summarize(questions, answers, verdicts, staged.values()), verdicts
        return self.known[registry, name]

    def answer(self, registry: str, task: Task, staged: dict[str, Refresh]) -> Answer:
        template = DOMAIN.registries[registry].template(task.measure, task.params)
        if template is None:
            return Answer(task.task_id, T, T, None, None, "unanswered", [])
        cuts = {
            cls: staged[table].classes[cls] if table in staged else self.index.cut_at(T)
            for cls, table in template.reads.items()
        }
        refreshed = {cls: staged[table].at_ms for cls, table in template.reads.items() if table in staged}
        value = self.gold.gold(task.measure, task.params, T, cuts)
        tables = list(dict.fromkeys(template.reads.values()))
        read = Retrieval(template.route, "staged", task.measure, tables, "", 1, 0.0, cuts, refreshed)
        return Answer(task.task_id, T, T, str(value), value, "answered", [read])


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    study = Study()
    yield study
    study.index.close()


@pytest.mark.parametrize(("name", "stale"), list(zip(CELLS, (8, 8, 25, 69, 6, 8), strict=True)))
def test_a_reader_that_never_errs_is_stale_as_often_as_the_reference_says(study: Study, name: str, stale: int) -> None:
    counts = study.cell("paper", name)[0].counts
    assert (counts.freshness_error, counts.unanswered, counts.reasoning_error) == (stale, 33, 33)
    assert counts.correct == 180 - 33 - stale


def test_stale_answers_of_one_day_are_of_the_measures_that_the_reference_names(study: Study) -> None:
    by_measure = study.cell("paper", "1 day, tiered")[0].by_measure
    assert {measure: counts.freshness_error for measure, counts in by_measure.items() if counts.freshness_error} == {
        "top_spending_cost_center": 5,
        "spend_by_cost_center": 1,
        "zero_usage_license_count": 1,
        "idle_license_count_cc": 1,
    }


def test_ages_in_the_long_window_are_the_published_ones(study: Study) -> None:
    ages = {name: study.cell("paper", name)[0].ages_days for name in ("28 days, tiered", "28 days, off")}
    named = ("assignments", "user_status", "prices", "contract_terms")
    assert [ages["28 days, tiered"][cls] for cls in named] == [1, 1, 5, 29]
    assert [ages["28 days, off"][cls] for cls in named] == [29, 29, 29, 29]


@pytest.mark.parametrize("registry", ["paper", "normalized"])
def test_no_price_of_a_licence_drifts_so_prices_of_licences_are_never_the_cause_of_a_short_window(
    study: Study, registry: str
) -> None:
    for name in ("1 day, tiered", "1 day, off"):
        summary, _ = study.cell(registry, name)
        assert "prices" not in summary.by_cause
        assert sum(summary.by_cause.values()) == pytest.approx(summary.counts.freshness_error)


@pytest.mark.parametrize("registry", ["paper", "normalized"])
def test_without_its_events_every_exposed_answers_gold_is_that_of_its_vector(study: Study, registry: str) -> None:
    tasks = {task.task_id: task for task in TASKS}
    groups: dict[tuple[int, ...], list[Verdict]] = {}
    for name in list(CELLS)[:4]:
        for verdict in study.cell(registry, name)[1]:
            if verdict.exposed:
                groups.setdefault(tuple(verdict.events), []).append(verdict)
    assert sum(map(len, groups.values())) >= 110
    for events, verdicts in groups.items():
        gone = set(events)
        other = LedgerIndex.of_events((e for e in study.events if e.seq not in gone), DOMAIN)
        for verdict in verdicts:
            task = tasks[verdict.task_id]
            found = Gold(other, DOMAIN).at(task.measure, task.params, T)
            assert not differ(task.answer_type, found, verdict.gold_at_vector), (task, found)
            assert set(verdict.marked) <= gone
        other.close()
