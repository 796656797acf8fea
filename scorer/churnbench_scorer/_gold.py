"""Gold: the true answer of a measure at a vector of cuts, and how answers compare with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from churnbench.cuts import Cut
from churnbench.domain import AnswerType, Domain, Measure
from churnbench.errors import NotFoundError
from churnbench_scorer._cache import WeightedCache
from churnbench_scorer._facts import IndexView
from churnbench_scorer._intervals import LedgerIndex

__all__ = ["Gold", "compare", "differ", "parsed"]

_CACHED = 200_000
_RELATIVE, _ABSOLUTE = 0.01, 1e-6


def parsed(answer_type: AnswerType, value: Any) -> int | float | str | None:
    """`value` as its type is compared: int, finite float, or trimmed and case-folded text; None if it is none.

    A float with an integral value, and text that says a number, are numbers; a bool is none.
    """
    if value is None or isinstance(value, bool):
        return None
    if answer_type == "str":
        return str(value).strip().casefold()
    if isinstance(value, str):
        text = value.strip()
        try:
            value = int(text) if text.lstrip("+-").isdecimal() else float(text)
        except ValueError:
            return None
    try:
        if answer_type == "float":
            number = float(value)
            return number if math.isfinite(number) else None
        return int(value) if value == int(value) else None
    except (OverflowError, TypeError, ValueError):
        return None


def compare(answer_type: AnswerType, value: Any, gold: Any) -> bool:
    """Whether `value` answers what `gold` says.

    int exactly; float within 1 % of gold, 1e-6 absolute where gold is 0; str trimmed and case-folded. None,
    NaN, infinity and what is not of the type equal nothing. Rules: ChurnBench's released data.
    """
    said, true = parsed(answer_type, value), parsed(answer_type, gold)
    if said is None or true is None:
        return False
    if isinstance(said, float) and isinstance(true, float):
        return abs(said - true) <= (_RELATIVE * abs(true) if true else _ABSOLUTE)
    return said == true


def differ(answer_type: AnswerType, old: Any, gold: Any) -> bool:
    """Whether two golds differ by the answers' own comparison, `gold` being the true one; two Nones do not."""
    if old is None or gold is None:
        return (old is None) != (gold is None)
    return not compare(answer_type, old, gold)


class Gold:
    """Golds of a domain's measures over an index.

    Args:
        index: the ledger.
        domain: declares the measures.
    """

    def __init__(self, index: LedgerIndex, domain: Domain) -> None:
        self.index = index
        self.domain = domain
        self._known: WeightedCache[Any] = WeightedCache(_CACHED)

    def measure(self, name: str) -> Measure:
        """The measure `name`.

        Raises:
            NotFoundError: there is none.
        """
        if name not in self.domain.measures:
            raise NotFoundError(f"no measure {name!r}; known: {', '.join(self.domain.measures)}")
        return self.domain.measures[name]

    def facts(self, at_ms: int) -> IndexView:
        """Every fact as of a time."""
        return IndexView(self.index, {}, self.index.cut_at(at_ms))

    def at(self, measure: str, params: Mapping[str, Any], at_ms: int) -> Any:
        """Plain gold: question and data at the same time. None where what is asked about does not exist."""
        return self.gold(measure, params, at_ms)

    def gold(
        self,
        measure: str,
        params: Mapping[str, Any],
        at_ms: int,
        vector: Mapping[str, Cut] | None = None,
        default: Cut | None = None,
    ) -> Any:
        """The true answer if the data were as of a vector of cuts; the question's own time is never moved.

        Args:
            measure: what is asked.
            params: its parameters.
            at_ms: the question's time: windows and expiry are reckoned from it.
            vector: class -> cut; classes that the measure does not read count for nothing.
            default: the cut of the other classes; None: that of `at_ms`.

        Raises:
            NotFoundError: there is no such measure.
            TerminalError: the measure reads what it does not declare.
        """
        meant = self.measure(measure)
        base = default if default is not None else self.index.cut_at(at_ms)
        view = IndexView(self.index, vector or {}, base, (measure, meant.reads))
        key = (measure, msgspec.json.encode(params), at_ms, tuple(view.positions(cls) for cls in meant.reads))
        return self._known.get(key, lambda: meant.gold(view, params, at_ms))
