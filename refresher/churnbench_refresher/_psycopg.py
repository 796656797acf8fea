"""PostgreSQL's errors in the two branches that decide retrying."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import psycopg_pool

from churnbench.errors import SourceUnavailableError, UsageError

__all__ = ["translated"]


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises what PostgreSQL raises within as an error of ours.

    Args:
        doing: what is being done, for the message.

    Raises:
        SourceUnavailableError: no connection, a lost one, a statement that took too long, or a transaction that
            lost to another: worth a retry.
        UsageError: the statement is refused or fails.
    """
    try:
        yield
    except (psycopg.OperationalError, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed) as error:
        raise SourceUnavailableError(f"PostgreSQL did not answer while {doing}: {_line(error)}") from error
    except psycopg.Error as error:
        raise UsageError(f"PostgreSQL refused {doing}: {_line(error)}; mend the statement or the registry") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
