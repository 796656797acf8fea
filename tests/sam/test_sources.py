"""The sources and the staged tables on a real PostgreSQL: views, and a clerk who answers by the templates.

What the clerk says must be gold at the cuts of what the clerk read, whatever these cuts are: a reader that follows
the templates errs by stale data alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from churnbench.domain import Task
from churnbench.events import Event
from churnbench.registry import DAY_MS, Registry
from churnbench.stores.postgres import embedded_server, stop_embedded
from churnbench.tables import Fold, fingerprint
from churnbench_sam import DOMAIN
from tests.sam.brute import day, matches
from tests.sam.desk import Desk, rows_by_sql, store_all
from tests.sam.estates import ESTATES
from tests.sam.simple_view import Index
from tests.sam.test_measures import every_question
from tests.sam.test_tasks import published_tasks

Database = psycopg.Connection[Any]
T = day("2024-04-27")
SOURCES = {"warehouse": DOMAIN.warehouse, "operations": DOMAIN.operations}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    home = tmp_path_factory.mktemp("home")
    server = asyncio.run(embedded_server(home))
    try:
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
            yield connection
    finally:
        asyncio.run(stop_embedded(home))


@pytest.fixture(scope="module")
def desk(db: Database, reference_events: list[Event]) -> Desk:
    return Desk(db, DOMAIN, reference_events, T)


@pytest.fixture(scope="module")
def index(reference_events: list[Event]) -> Index:
    return Index(DOMAIN, reference_events)


def assert_views_equal(db: Database, events: list[Event]) -> None:
    for schema, source in SOURCES.items():
        fold = Fold(source.tables)
        fold.apply(events)
        store_all(db, schema, source, fold)
        for view in source.views:
            by_sql, derived = rows_by_sql(db, schema, view), fold.relation(view)
            assert fingerprint({"rows": by_sql}) == fingerprint({"rows": derived}), (view.name, by_sql, derived)
            assert len({row[0] for row in derived}) == len(derived), view.name


def test_views_in_sql_are_the_derived_ones_in_the_reference_world(db: Database, reference_events: list[Event]) -> None:
    assert_views_equal(db, [event for event in reference_events if event.at_ms <= T])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(ESTATES)
def test_views_in_sql_are_the_derived_ones_in_any_estate(db: Database, events: list[Event]) -> None:
    assert_views_equal(db, events)


def test_views_of_nothing_are_empty(db: Database) -> None:
    assert_views_equal(db, [])


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(ESTATES, st.sampled_from(sorted(DOMAIN.registries)), st.data())
def test_an_answer_by_a_template_is_gold_at_the_cuts_it_read(
    db: Database, events: list[Event], name: str, data: st.DataObject
) -> None:
    assume(events)
    registry, at_ms, last = DOMAIN.registries[name], events[-1].at_ms, events[-1].seq
    desk, index = Desk(db, DOMAIN, events, at_ms), Index(DOMAIN, events)
    desk.stage(registry, {table: data.draw(st.integers(-1, last), label=table) for table in registry.staged()})
    for measure, params in every_question(events, 99.75, data.draw(st.sampled_from([3, 30]))):
        template = registry.template(measure, params)
        if template is None:
            continue
        kind = DOMAIN.measures[measure].answer_type
        answer = desk.answer(template, Task("t", "T", 1, measure, params, kind, "any"))
        gold = DOMAIN.measures[measure].gold(index.view(at_ms, desk.vector(template)), params, at_ms)
        if kind == "float" and gold is not None:
            gold = pytest.approx(gold)
        assert (measure, params, answer) == (measure, params, gold)


def refreshed(registry: Registry, t_prime: int, policy: str, rule: str) -> dict[str, int]:
    """Staged table -> its last refresh, walking day by day; the document index is built once."""
    days = {}
    for table, (owner, _) in registry.staged().items():
        ttl, last = registry.policy(owner).ttl_ms, t_prime
        assert ttl is not None
        if policy == "tiered" and (registry.documents is None or table != registry.documents.name):
            for now in range(t_prime, T + 1, DAY_MS):
                if now - last > ttl or (rule == "reaches" and now - last >= ttl):
                    last = now
        days[table] = last
    return days


def ask_all(desk: Desk, index: Index, registry: Registry, days: dict[str, int]) -> tuple[Counter[str], Counter[str]]:
    """How the 180 tasks end, and the measures of the stale answers."""
    desk.stage(registry, {table: desk.cut(at_ms) for table, at_ms in days.items()})
    ends: Counter[str] = Counter()
    stale: Counter[str] = Counter()
    now = index.view(T)
    for task in published_tasks():
        template, measure = registry.template(task.measure, task.params), DOMAIN.measures[task.measure]
        if template is None:
            ends["unanswered"] += 1
            continue
        answer = desk.answer(template, task)
        as_read = measure.gold(index.view(T, desk.vector(template)), task.params, T)
        assert type(answer) is type(as_read) and matches(answer, as_read, task.answer_type), (task, answer, as_read)
        if matches(answer, measure.gold(now, task.params, T), task.answer_type):
            ends["correct"] += 1
        else:
            ends["stale"] += 1
            stale[task.measure] += 1
    return ends, stale


@pytest.mark.parametrize(
    ("t_prime", "policy", "rule", "stale"),
    [
        ("2024-04-26", "tiered", "exceeds", 8),
        ("2024-04-26", "off", "exceeds", 8),
        ("2024-03-29", "tiered", "exceeds", 25),
        ("2024-03-29", "off", "exceeds", 69),
        ("2024-04-26", "tiered", "reaches", 6),
        ("2024-03-29", "tiered", "reaches", 8),
    ],
)
def test_the_clerk_is_as_often_stale_as_published(
    desk: Desk, index: Index, t_prime: str, policy: str, rule: str, stale: int
) -> None:
    registry = DOMAIN.registries["paper"]
    ends, by_measure = ask_all(desk, index, registry, refreshed(registry, day(t_prime), policy, rule))
    assert ends == {"correct": 147 - stale, "unanswered": 33, "stale": stale}
    if stale == 8 and rule == "exceeds":
        assert by_measure == {
            "top_spending_cost_center": 5,
            "spend_by_cost_center": 1,
            "zero_usage_license_count": 1,
            "idle_license_count_cc": 1,
        }


def test_normalized_tables_leave_only_the_event_history_unanswered(desk: Desk, index: Index) -> None:
    registry = DOMAIN.registries["normalized"]
    ends, _ = ask_all(desk, index, registry, refreshed(registry, T, "off", "exceeds"))
    assert ends == {"correct": 155, "unanswered": 25}


SMALL = {"days": "45", "users": "60", "licenses": "50", "contracts": "8", "products": "10", "cost_centers": "5"}


@pytest.mark.parametrize("name", sorted(DOMAIN.registries))
@pytest.mark.parametrize("preset", sorted(DOMAIN.presets))
def test_in_every_preset_the_clerk_errs_by_stale_data_alone(db: Database, preset: str, name: str) -> None:
    parameters = DOMAIN.parameters(preset, SMALL)
    events = list(DOMAIN.simulate(parameters, 7))
    at_ms = DOMAIN.span(parameters)[0] + 40 * DAY_MS
    desk, index, registry = Desk(db, DOMAIN, events, at_ms), Index(DOMAIN, events), DOMAIN.registries[name]
    now = index.view(at_ms)

    def gold(measure: str, params: Mapping[str, Any]) -> Any:
        return DOMAIN.measures[measure].gold(now, params, at_ms)

    # Each staged table has an age of its own.
    ages = {table: 1 + 5 * number for number, table in enumerate(sorted(registry.staged()))}
    desk.stage(registry, {table: desk.cut(at_ms - age * DAY_MS) for table, age in ages.items()})
    for task in DOMAIN.generate_tasks(preset, gold, now, 60, 5):
        template = registry.template(task.measure, task.params)
        if template is not None:
            vector = desk.vector(template)
            as_read = DOMAIN.measures[task.measure].gold(index.view(at_ms, vector), task.params, at_ms)
            answer = desk.answer(template, task)
            assert answer == as_read or matches(answer, as_read, task.answer_type), (task, answer, as_read)
