"""A cache that forgets what was used longest ago once it holds too much."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

__all__ = ["WeightedCache"]

T = TypeVar("T")


class WeightedCache(Generic[T]):
    """Values by key, the total of their weights held at or below a limit.

    A value that weighs more than the limit is made, given, and not kept.

    Args:
        limit: most weight kept.
        weigh: a value's weight, at least 1.
    """

    def __init__(self, limit: int, weigh: Callable[[Any], int] = lambda value: 1) -> None:
        self.limit = limit
        self._weigh = weigh
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of `key`, made by `make` where it is not kept."""
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known[0]
        value = make()
        weight = max(1, self._weigh(value))
        if weight <= self.limit:
            self._kept[key] = (value, weight)
            self._weight += weight
            while self._weight > self.limit:
                _, (_, gone) = self._kept.popitem(last=False)
                self._weight -= gone
        return value
