"""What the last line says: the failure, and how to go on with what is unfinished."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Sequence

import duckdb
import psycopg
import psycopg_pool

from churnbench.errors import ChurnBenchError, UsageError

__all__ = ["begun", "ended", "failure", "going_on"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# What this process has begun: a signal can end it at any statement, and then nobody else knows.
_study: list[str] = []
_unfinished: list[str] = []


def begun(run_ids: Sequence[str]) -> None:
    """Notes the runs that this command is to bring to their end."""
    _study[:] = run_ids
    _unfinished[:] = run_ids


def ended(run_id: str) -> None:
    """Notes that a run is finished."""
    _unfinished.remove(run_id)


def _resume() -> str | None:
    """The command that goes on; it names finished runs too, so that its table and report are of all."""
    if not _unfinished:
        return None
    return f"`churnbench run {' '.join(f'--resume {run_id}' for run_id in _study)}`"


def going_on() -> str:
    """How to go on after an interruption."""
    command = _resume()
    if command is None:
        return "nothing is lost: give the command again"
    done = len(_study) - len(_unfinished)
    of = f"{done} of {len(_study)} runs are finished, " if len(_study) > 1 else ""
    return f"{of}go on with {command}"


def failure(error: BaseException) -> tuple[str, int]:
    """The line and the exit code of an error.

    Raises:
        BaseException: `error` itself, where it is none that can be foreseen.
    """
    error = _first(error)
    text, code = _text(error)
    command = _resume()
    if command is not None and not isinstance(error, UsageError):
        text = f"{text}; then go on with {command}"
    return " ".join(text.split()), code


def _text(error: BaseException) -> tuple[str, int]:
    if isinstance(error, ChurnBenchError):
        return str(error), 2 if isinstance(error, UsageError) else 1
    if isinstance(error, psycopg.Error | psycopg_pool.PoolTimeout | psycopg_pool.PoolClosed):
        return f"PostgreSQL failed: {str(error) or type(error).__name__}; see `churnbench doctor`", 1
    if isinstance(error, duckdb.Error):
        return f"DuckDB failed: {str(error).partition(chr(10))[0]}; see `churnbench doctor`", 1
    if isinstance(error, sqlite3.Error):
        return f"SQLite failed: {error}; see `churnbench doctor`", 1
    if isinstance(error, MemoryError):
        return "there is not enough memory; end other programs, or take a smaller world", 1
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename is not None else ""
        if error.errno in _FULL:
            return f"no space left to write{where}; free some", 1
        return f"the system refuses{where}: {error.strerror or error}; see `churnbench doctor`", 1
    raise error


def _first(error: BaseException) -> BaseException:
    """The error that a group of tasks failed of: our own before others."""
    leaves: list[BaseException] = []
    pending = [error]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, ChurnBenchError)), leaves[0])
