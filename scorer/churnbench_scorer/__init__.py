"""Judges answers from the ledger alone."""

from churnbench_scorer._evidence import events_of, wanted_events
from churnbench_scorer._gold import Gold, compare, differ, parsed
from churnbench_scorer._intervals import LedgerIndex
from churnbench_scorer._published import PublishedCounts, PublishedVerdict, published_counts, score_published
from churnbench_scorer._report import EVENTS_SHOWN, study_report
from churnbench_scorer._results import RunResult, StaleAnswer, finding, stale_answers
from churnbench_scorer._summary import Counts, Latency, Summary, accuracy, summarize
from churnbench_scorer._verdicts import Judge, score

__all__ = [
    "EVENTS_SHOWN",
    "Counts",
    "Gold",
    "Judge",
    "Latency",
    "LedgerIndex",
    "PublishedCounts",
    "PublishedVerdict",
    "RunResult",
    "StaleAnswer",
    "Summary",
    "accuracy",
    "compare",
    "differ",
    "events_of",
    "finding",
    "parsed",
    "published_counts",
    "score",
    "score_published",
    "stale_answers",
    "study_report",
    "summarize",
    "wanted_events",
]
