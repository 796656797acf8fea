"""Keeps the staged cache by a refresh policy."""

from churnbench_refresher._check import DocumentsAt, check_staged, last_refreshes
from churnbench_refresher._layout import StagedLayout, layouts
from churnbench_refresher._marks import SourceMarks
from churnbench_refresher._policies import RULES, Due, Off, Policy, State, Tiered, find_policy, policies
from churnbench_refresher._reader import StagedReader
from churnbench_refresher._replay import Replay
from churnbench_refresher._service import REFRESHER, WAYS, Refresher, RefreshSources, Way
from churnbench_refresher._staged import StagedCache, Stamp, Written

__all__ = [
    "REFRESHER",
    "RULES",
    "WAYS",
    "DocumentsAt",
    "Due",
    "Off",
    "Policy",
    "RefreshSources",
    "Refresher",
    "Replay",
    "SourceMarks",
    "StagedCache",
    "StagedLayout",
    "StagedReader",
    "Stamp",
    "State",
    "Tiered",
    "Way",
    "Written",
    "check_staged",
    "find_policy",
    "last_refreshes",
    "layouts",
    "policies",
]
