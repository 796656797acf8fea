"""Every error of ChurnBench, under one root.

Two branches decide retrying everywhere: a `TransientError` may go away by itself, so hosts retry it with
backoff; a `TerminalError` never does. The text of each error is one line that names the value received,
the valid ones, and what to do.
"""

from __future__ import annotations

__all__ = [
    "ChurnBenchError",
    "CorruptLogError",
    "CutMovedError",
    "DecodeError",
    "IncompleteError",
    "NotFoundError",
    "SequenceGapError",
    "SourceUnavailableError",
    "TerminalError",
    "TransientError",
    "UsageError",
]


class ChurnBenchError(Exception):
    """The root of all errors that ChurnBench raises on purpose."""


class TransientError(ChurnBenchError):
    """A failure that may pass: worth a retry with backoff."""


class TerminalError(ChurnBenchError):
    """A failure that no retry mends."""


class UsageError(TerminalError):
    """What was asked for cannot be: the command line ends with exit code 2."""


class NotFoundError(UsageError):
    """A topic, world, run, preset, table or name that does not exist."""


class IncompleteError(UsageError):
    """A world or a run that lacks a part that the operation needs."""


class CorruptLogError(UsageError):
    """Stored records that are not what was appended."""


class SequenceGapError(CorruptLogError):
    """A partition sequence that does not follow the one before it."""


class DecodeError(TerminalError):
    """A record that is no event of the domain: names topic, partition and offset."""


class SourceUnavailableError(TransientError):
    """A store or service that did not answer."""


class CutMovedError(TransientError):
    """A position that somebody else moved first: the loser of a compare-and-set."""
