"""The registries: whole, consistent with the sources and the measures, and published as they were."""

from __future__ import annotations

import re

import pytest

from churnbench.registry import DAY_MS, Registry
from churnbench_sam import DOMAIN
from tests.sam.test_tasks import published_tasks

SOURCES = {"warehouse": DOMAIN.warehouse, "operations": DOMAIN.operations}
HISTORY = {"license_reclaim_count", "offboard_count_window", "reassignment_count"}


@pytest.fixture(params=sorted(DOMAIN.registries))
def registry(request: pytest.FixtureRequest) -> Registry:
    return DOMAIN.registries[request.param]


def test_every_class_has_a_policy_and_a_lapse_unless_it_is_live(registry: Registry) -> None:
    assert {policy.name for policy in registry.classes} == {cls.name for cls in DOMAIN.classes}
    for policy in registry.classes:
        assert (policy.ttl_ms is None) == (policy.tier == "live")


def test_times_to_live_are_the_published_ones(registry: Registry) -> None:
    days = {policy.name: policy.ttl_ms // DAY_MS for policy in registry.classes if policy.ttl_ms is not None}
    assert days == {
        "assignments": 1,
        "user_status": 1,
        "prices": 7,
        "cost_center_membership": 7,
        "contract_terms": 30,
        "vendor_dims": 30,
    }


def test_staged_tables_copy_columns_that_their_source_has_the_key_first(registry: Registry) -> None:
    for table in registry.tables:
        source = SOURCES[table.source]
        relation = {r.name: r for r in (*source.tables, *source.views)}[table.relation]
        names = [column.name for column in relation.columns]
        assert set(table.columns) <= set(names)
        assert table.columns[0] == names[0]
        assert {table.owner, *table.embeds} <= {policy.name for policy in registry.classes if policy.ttl_ms}


def test_only_live_classes_are_not_staged(registry: Registry) -> None:
    staged = {cls for owner, embeds in registry.staged().values() for cls in (owner, *embeds)}
    assert staged == {policy.name for policy in registry.classes if policy.tier != "live"}


def test_templates_read_the_classes_that_gold_depends_on_from_tables_that_hold_them(registry: Registry) -> None:
    staged = registry.staged()
    live = {r.name for r in (*DOMAIN.warehouse.tables, *DOMAIN.warehouse.views)}
    live |= {resource.name for resource in DOMAIN.saas.resources}
    for template in registry.templates:
        assert set(template.reads) == set(DOMAIN.measures[template.measure].reads), template.measure
        for cls, name in template.reads.items():
            if name in staged:
                owner, embeds = staged[name]
                assert cls in (owner, *embeds)
            else:
                assert name in live
        assert set(template.reads.values()) == {table for query in template.queries for table in query.tables}


def test_statements_name_their_tables_and_take_only_parameters_they_are_given(registry: Registry) -> None:
    for template in registry.templates:
        parameters = set(DOMAIN.measures[template.measure].parameters)
        for query in template.queries:
            given = parameters | set(query.arguments)
            taken = set(re.findall(r"%\((\w+)\)s", query.statement))
            if query.source == "documents":
                taken = set(re.findall(r"\{(\w+)\}", query.statement))
                assert query.key in parameters
            assert taken <= given
            assert all(a.startswith("@") or a in parameters for a in query.arguments.values())
            assert all(a.removeprefix("@at-days:") in parameters for a in query.arguments.values() if "days:" in a)
            if query.source in ("staged", "warehouse"):
                assert set(re.findall(query.source + r"\.(\w+)", query.statement)) == set(query.tables)


def test_what_has_no_data_has_no_template() -> None:
    measures = set(DOMAIN.measures)
    answered = {name: {t.measure for t in registry.templates} for name, registry in DOMAIN.registries.items()}
    assert measures - answered["paper"] == HISTORY | {"idle_license_cost"}
    assert measures - answered["normalized"] == HISTORY


def test_33_of_the_published_tasks_have_no_template_in_paper_and_25_in_normalized() -> None:
    missing = {
        name: sum(registry.template(task.measure, task.params) is None for task in published_tasks())
        for name, registry in DOMAIN.registries.items()
    }
    assert missing == {"paper": 33, "normalized": 25}


def test_all_five_routes_serve_the_published_tasks(registry: Registry) -> None:
    routes = set()
    for task in published_tasks():
        template = registry.template(task.measure, task.params)
        if template is not None:
            routes.add(template.route)
            sources = {query.source for query in template.queries}
            assert sources == {"staged", "warehouse"} if template.route == "federated" else sources == {template.route}
    assert routes == {"staged", "federated", "warehouse", "saas", "documents"}


def test_current_use_is_asked_of_the_saas_for_its_30_days_alone(registry: Registry) -> None:
    route = {}
    for days in (7, 29, 30, 31):
        template = registry.template("product_active_users", {"product_id": "prd_0000", "window_days": days})
        assert template is not None
        route[days] = template.route
    assert route == {7: "warehouse", 29: "warehouse", 30: "saas", 31: "warehouse"}


def test_paper_freezes_other_classes_in_its_tables_and_normalized_none() -> None:
    paper, normalized = DOMAIN.registries["paper"], DOMAIN.registries["normalized"]
    assert paper.staged()["purchases"] == ("prices", ("assignments", "user_status", "cost_center_membership"))
    assert paper.staged()["users"] == ("user_status", ("cost_center_membership",))
    assert paper.staged()["assignments"] == ("assignments", ("prices",))
    assert all(not embeds for _, embeds in normalized.staged().values())


def test_no_published_template_reads_the_staged_cost_centers_or_vendors(registry: Registry) -> None:
    read = {name for template in registry.templates for name in template.reads.values()}
    assert not read & {"cost_centers", "vendors"}
