"""The agent over real sources: answers, traces, failures, and going on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from churnbench.records import Answer
from churnbench.registry import Query, Template
from churnbench.stores.postgres import RunDatabase
from churnbench_agent import Reply, Routes, ScriptedReader
from churnbench_refresher import Off
from tests.agent.desk import DAY, Desk, open_desk, question
from tests.toy import DEPOTS, REGISTRY, START_MS


@pytest.fixture
async def stale(database: RunDatabase, tmp_path: Path) -> AsyncIterator[Desk]:
    """Staged on day 3, asked on day 12."""
    async with open_desk(database, tmp_path, 3, 12, Off()) as desk:
        yield desk


@pytest.fixture
async def fresh(database: RunDatabase, tmp_path: Path) -> AsyncIterator[Desk]:
    """Staged and asked on day 12."""
    async with open_desk(database, tmp_path, 12, 12, Off()) as desk:
        yield desk


async def test_over_fresh_data_every_template_gives_the_truth(fresh: Desk) -> None:
    now = fresh.ticks[-1].at_ms
    truth = await fresh.state(fresh.ticks[-1])
    counts = {depot: list(truth.depot.values()).count(depot) for depot in DEPOTS}
    for depot in DEPOTS:
        assert (await fresh.ask("parcels_in_depot", depot=depot)).value == counts[depot]
        scanned = truth.scanned(now - 3 * DAY)
        expected = sum(place == depot and parcel in scanned for parcel, place in truth.depot.items())
        assert (await fresh.ask("scanned_in_depot", depot=depot, days=3)).value == expected
    assert (await fresh.ask("fullest_depot")).value == min(counts, key=lambda depot: (-counts[depot], depot))
    assert (await fresh.ask("scans_recent", days=7)).value == sum(at >= now - 7 * DAY for at, _, _ in truth.scans)
    for parcel in ("p001", "p017"):
        assert (await fresh.ask("weight_of", parcel=parcel)).value == truth.weight[parcel]
        expected = sum(seconds for _, scanned, seconds in truth.scans if scanned == parcel)
        assert (await fresh.ask("activity_of", parcel=parcel)).value == expected


async def test_a_federated_answer_carries_a_cut_per_class(stale: Desk) -> None:
    answer = await stale.ask("scanned_in_depot", depot="north", days=3)
    first, last = stale.ticks[0], stale.ticks[-1]
    staged, live = answer.trace
    assert (staged.route, staged.source, staged.tables) == ("federated", "staged", ["locations"])
    assert staged.classes == {"location": first.cut}
    assert staged.refreshed == {"location": first.at_ms}
    assert (live.route, live.source, live.tables) == ("federated", "warehouse", ["scans"])
    assert live.classes == {"scans": last.cut}
    assert live.refreshed == {}
    assert {retrieval.measure for retrieval in answer.trace} == {"scanned_in_depot"}
    then, now = await stale.state(first), await stale.state(last)
    scanned = now.scanned(last.at_ms - 3 * DAY)
    assert answer.value == sum(place == "north" and parcel in scanned for parcel, place in then.depot.items())
    assert (answer.outcome, answer.raw, answer.asked_ms, answer.answered_ms, answer.reader) == (
        "answered",
        str(answer.value),
        last.at_ms,
        last.at_ms,
        "scripted",
    )


async def test_documents_are_looked_up_in_the_staged_generation_by_their_id(stale: Desk) -> None:
    answer = await stale.ask("weight_of", parcel="p004")
    (retrieval,) = answer.trace
    assert (retrieval.source, retrieval.statement) == ("documents", "weight of parcel p004")
    assert retrieval.classes == {"weight": stale.ticks[0].cut}
    assert retrieval.refreshed == {"weight": stale.ticks[0].at_ms}


async def test_live_documents_are_of_the_live_cut(stale: Desk) -> None:
    template = Template(
        "weight_of",
        "documents",
        (Query("waybill", "live_documents", "weight of parcel {parcel}", ("documents",)),),
        {"weight": "documents"},
        lambda results, params, at_ms: None,
    )
    trace = []
    results = await stale.routes.run(template, {"parcel": "p004"}, 0, trace)
    assert len(results["waybill"].rows) == 5
    assert trace[0].classes == {"weight": stale.ticks[-1].cut}
    assert trace[0].refreshed == {}


async def test_the_operational_store_is_read_as_a_relation(stale: Desk) -> None:
    query = Query("places", "operations", "places", ("places",))
    template = Template("x", "federated", (query,), {"location": "places"}, lambda results, params, at_ms: None)
    trace = []
    results = await stale.routes.run(template, {}, 0, trace)
    assert dict(results["places"].rows) == (await stale.state(stale.ticks[-1])).depot
    assert trace[0].classes == {"location": stale.ticks[-1].cut}


async def test_a_listing_counts_its_requests_and_its_virtual_latency(stale: Desk) -> None:
    answer = await stale.ask("activity_of", parcel="p004")
    (retrieval,) = answer.trace
    assert (retrieval.source, retrieval.statement, retrieval.calls) == ("saas", "activity?parcel=p004", 1)
    assert retrieval.classes == {"activity": stale.ticks[-1].cut}
    assert 0.35 <= retrieval.seconds <= answer.seconds


async def test_a_question_without_a_template_is_unanswered(stale: Desk) -> None:
    answer = await stale.ask("moves_window", days=7)
    assert (answer.outcome, answer.value, answer.raw, answer.trace) == ("unanswered", None, None, [])


async def test_a_template_that_finds_nothing_leaves_the_question_unanswered_with_its_trace(stale: Desk) -> None:
    answer = await stale.ask("weight_of", parcel="p999")
    assert (answer.outcome, answer.value, len(answer.trace)) == ("unanswered", None, 1)


async def test_a_source_that_is_down_is_a_transport_failure_and_may_be_asked_anew(stale: Desk) -> None:
    questions = [question("down", "activity_of", stale.ticks[-1].at_ms, parcel="p004")]
    await stale.server.close()
    agent = stale.agent()
    (failed,) = await agent.ask(questions)
    assert (failed.outcome, failed.value, failed.trace, failed.attempt) == ("transport_failure", None, [], 1)
    assert "the SaaS" in failed.error
    assert await agent.ask(questions) == []
    (again,) = await agent.ask(questions, retry_failed=True)
    assert (again.outcome, again.attempt) == ("transport_failure", 2)
    assert (await agent.last_answers())["down"] == again


async def test_a_store_that_is_down_is_a_transport_failure_with_the_trace_so_far(stale: Desk) -> None:
    class Down:
        async def query(self, statement, parameters):
            await stale.sources.staged._pool.close()
            return await stale.sources.staged.query("SELECT 1", {}, [])

    routes = Routes(REGISTRY, stale.sources._replace(warehouse=Down()))
    asked = question("down", "scanned_in_depot", stale.ticks[-1].at_ms, depot="north", days=3)
    reply = await ScriptedReader().answer(asked, routes)
    assert reply.outcome == "transport_failure"
    assert [retrieval.source for retrieval in reply.trace] == ["staged"]


async def test_a_source_that_refuses_is_a_tool_error(stale: Desk) -> None:
    routes = Routes(REGISTRY, stale.sources._replace(saas=None))
    reply = await ScriptedReader().answer(question("x", "activity_of", parcel="p001"), routes)
    assert reply.outcome == "tool_error"
    assert "asks saas, which this agent was not given" in reply.error


class Counting:
    """Answers with the task's number, breaking off at one of them."""

    name = "counting"

    def __init__(self, breaks_at: int | None = None) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._now = 0
        self._breaks_at = breaks_at

    async def answer(self, question, routes) -> Reply:
        self.asked.append(question.task_id)
        number = len(self.asked)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.002)
        self._now -= 1
        if number == self._breaks_at:
            raise KeyError("broken")
        return Reply("answered", [], question.task_id, int(question.task_id), tokens={"input": 3})


async def test_a_run_that_was_broken_off_asks_only_what_has_no_answer(stale: Desk) -> None:
    questions = [question(str(number), "fullest_depot") for number in range(12)]
    await stale.stage.run.topic("questions").append(questions, START_MS)
    with pytest.raises(KeyError, match="broken"):
        await stale.agent(Counting(breaks_at=7), concurrency=3).ask()
    answered = {answer.task_id for answer in await stale.stage.run.topic("answers").all()}
    assert 4 <= len(answered) < 12
    reader = Counting()
    told: list[Answer] = []
    new = await stale.agent(reader, concurrency=3).ask(progress=told.append)
    assert told == new
    assert sorted(reader.asked, key=int) == [q.task_id for q in questions if q.task_id not in answered]
    answers = await stale.stage.run.topic("answers").all()
    assert sorted(int(answer.task_id) for answer in answers) == list(range(12))
    assert all(answer.value == int(answer.task_id) and answer.tokens == {"input": 3} for answer in answers)
    assert await stale.agent(Counting(breaks_at=1)).ask() == []


@pytest.mark.parametrize("limit", [1, 5])
async def test_no_more_questions_are_asked_at_once_than_the_limit(stale: Desk, limit: int) -> None:
    reader = Counting()
    await stale.agent(reader, concurrency=limit).ask(question(str(number), "fullest_depot") for number in range(20))
    assert reader.most == limit
    assert len(reader.asked) == 20
