"""Golds of the reference tasks, with the index built; seconds, for there is no bare limit."""

from __future__ import annotations

from benchmarks._measure import Result, timed
from benchmarks._world import reference_spec
from churnbench.clock import DAY_MS, parse_time
from churnbench.domain import find_domain
from churnbench_scorer import Gold, LedgerIndex

__all__ = ["gold_results"]


def gold_results() -> list[Result]:
    """180 golds at T, and 180 with every staged class 29 days older."""
    domain, spec = find_domain("sam"), reference_spec()
    index = LedgerIndex.of_events(domain.simulate(spec.parameters, spec.seed), domain)
    at_ms = parse_time("2024-04-27")
    present, past = index.cut_at(at_ms), index.cut_at(at_ms - 29 * DAY_MS)
    first = Gold(index, domain)
    tasks = domain.generate_tasks(
        "reference", lambda measure, params: first.at(measure, params, at_ms), first.facts(at_ms), 180, 42
    )
    live = {"consumption_facts", "utilization_current", "tickets", "user_history", "assignment_history"}
    vector = {cls.name: past for cls in domain.classes if cls.name not in live}
    index.close()
    # Another index, so that nothing is cached.
    index = LedgerIndex.of_events(domain.simulate(spec.parameters, spec.seed), domain)
    seconds: list[float] = []
    gold = Gold(index, domain)
    with timed(seconds):
        for task in tasks:
            gold.at(task.measure, task.params, at_ms)
            gold.gold(task.measure, task.params, at_ms, vector, present)
    index.close()
    return [Result("golds of 180 tasks at T and at their vectors", seconds[0], None, 1)]
