"""Judges answers from the ledger alone."""

from churnbench_scorer._compare import Comparison, Flip, RunRecords, Side, compare_runs, mcnemar
from churnbench_scorer._cost import RefreshCost, StagedCost
from churnbench_scorer._evidence import events_of, wanted_events
from churnbench_scorer._gold import Gold, compare, differ, parsed
from churnbench_scorer._headline import Headline, headline
from churnbench_scorer._html import html_report
from churnbench_scorer._intervals import LedgerIndex
from churnbench_scorer._published import PublishedCounts, PublishedVerdict, published_counts, score_published
from churnbench_scorer._report import study_report
from churnbench_scorer._results import RunResult, StaleAnswer, stale_answers
from churnbench_scorer._stale import EVENTS_SHOWN
from churnbench_scorer._summary import Counts, Latency, Summary, accuracy, summarize
from churnbench_scorer._verdicts import Judge, score
from churnbench_scorer._wording import rounded

__all__ = [
    "EVENTS_SHOWN",
    "Comparison",
    "Counts",
    "Flip",
    "Gold",
    "Headline",
    "Judge",
    "Latency",
    "LedgerIndex",
    "PublishedCounts",
    "PublishedVerdict",
    "RefreshCost",
    "RunRecords",
    "RunResult",
    "Side",
    "StagedCost",
    "StaleAnswer",
    "Summary",
    "accuracy",
    "compare",
    "compare_runs",
    "differ",
    "events_of",
    "headline",
    "html_report",
    "mcnemar",
    "parsed",
    "published_counts",
    "rounded",
    "score",
    "score_published",
    "stale_answers",
    "study_report",
    "summarize",
    "wanted_events",
]
