"""Judges answers from the ledger alone."""

from churnbench_scorer._gold import Gold, compare, differ, parsed
from churnbench_scorer._intervals import LedgerIndex
from churnbench_scorer._published import PublishedCounts, PublishedVerdict, published_counts, score_published
from churnbench_scorer._summary import Counts, Latency, Summary, accuracy, summarize
from churnbench_scorer._verdicts import Judge, score

__all__ = [
    "Counts",
    "Gold",
    "Judge",
    "Latency",
    "LedgerIndex",
    "PublishedCounts",
    "PublishedVerdict",
    "Summary",
    "accuracy",
    "compare",
    "differ",
    "parsed",
    "published_counts",
    "score",
    "score_published",
    "summarize",
]
