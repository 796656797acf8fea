"""How often Python looks for cyclic garbage.

A ledger is read as hundreds of thousands of small tuples that are freed by their reference counts; looking through
them for cycles at the interpreter's pace takes a third of the time of a projection.
"""

from __future__ import annotations

import gc

__all__ = ["collect_seldom"]

_YOUNG = 50_000
_MIDDLE = 20
_OLD = 50


def collect_seldom() -> None:
    """Sets what is loaded by now aside, and looks for cycles after 50,000 new objects instead of 700.

    For programs, at their start; a library leaves its host's setting alone.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
