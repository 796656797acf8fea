"""What a query is asked with, and which classes it reads."""

from __future__ import annotations

import pytest

from churnbench.domain import load_domains
from churnbench.errors import UsageError
from churnbench.events import from_millis
from churnbench.registry import ClassPolicy, Query, Registry, StagedTable, Template
from churnbench_agent import Router
from churnbench_agent._routes import arguments, claims
from tests.toy import TOY

DAY = 86_400_000
NOON = 1_714_219_200_000


def test_arguments_are_the_questions_parameters_and_the_times_that_a_query_names() -> None:
    query = Query("q", "warehouse", "", (), {"since": "@at-days:days", "until": "@at", "cost_center": "cc"})
    assert arguments(query, {"days": 7, "cc": "cc_001"}, NOON) == {
        "days": 7,
        "cc": "cc_001",
        "since": from_millis(NOON - 7 * DAY),
        "until": from_millis(NOON),
        "cost_center": "cc_001",
    }


@pytest.mark.parametrize("source", ["@at-days:weeks", "weeks"])
def test_an_argument_that_the_question_does_not_have_is_an_error(source: str) -> None:
    with pytest.raises(UsageError, match=r"takes x from .*weeks.*; it has days"):
        arguments(Query("q", "warehouse", "", (), {"x": source}), {"days": 7}, NOON)


def _template(reads: dict[str, str], *queries: Query) -> Template:
    return Template("m", "federated", queries, reads, lambda results, params, at_ms: None)


_USERS = Registry(
    "r",
    (ClassPolicy("status", "operations", "hot", DAY), ClassPolicy("use", "warehouse", "live")),
    (StagedTable("users", "status", "operations", "users", ("user",), ("center",)),),
    None,
    (),
)


def test_a_name_shared_by_a_staged_table_and_a_live_one_is_told_apart_by_class() -> None:
    staged, live = Query("here", "staged", "", ("users",)), Query("there", "warehouse", "", ("users",))
    template = _template({"status": "users", "center": "users", "use": "users"}, staged, live)
    assert claims(template, _USERS) == {"here": {"status", "center"}, "there": {"use"}}
    assert claims(_template({"status": "users"}, live), _USERS) == {"there": {"status"}}


def test_an_embedded_class_that_the_template_does_not_read_is_not_claimed() -> None:
    staged = Query("here", "staged", "", ("users",))
    assert claims(_template({"status": "users"}, staged), _USERS) == {"here": {"status"}}


def test_a_class_that_no_query_reads_is_an_error() -> None:
    with pytest.raises(UsageError, match="reads use from 'sessions', which none of its queries reads"):
        claims(_template({"use": "sessions"}, Query("here", "staged", "", ("users",))), _USERS)
    with pytest.raises(UsageError, match="reads use from 'users'"):
        claims(_template({"use": "users"}, Query("here", "staged", "", ("users",))), _USERS)


REGISTRIES = [
    pytest.param(domain, registry, id=f"{domain.name}-{registry.name}")
    for domain in (TOY, *load_domains().values())
    for registry in domain.registries.values()
]


@pytest.mark.parametrize(("domain", "registry"), REGISTRIES)
def test_every_template_reads_each_class_by_some_query(domain, registry) -> None:
    for template in registry.templates:
        claimed = set().union(*claims(template, registry).values())
        assert claimed == set(template.reads)
        for query in template.queries:
            if query.source in ("staged", "documents"):
                assert set(query.tables) <= set(registry.staged())


def test_the_router_takes_the_first_template_that_serves_the_parameters() -> None:
    narrow, wide, other = (
        Template(measure, "staged", (), {}, lambda results, params, at_ms: None, when)
        for measure, when in (
            ("m", lambda params: params["days"] == 30),
            ("m", lambda params: True),
            ("n", lambda params: True),
        )
    )
    router = Router(Registry("r", (), (), None, (other, narrow, wide)))
    assert router.route("m", {"days": 30}) is narrow
    assert router.route("m", {"days": 7}) is wide
    assert router.route("o", {}) is None
