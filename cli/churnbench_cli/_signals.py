"""Ctrl-C, SIGTERM and SIGHUP: the work is cancelled, closes what it has open, and the program says how to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Signals"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Signals:
    """The signals that end the program; a context manager that puts the former handlers back.

    The first signal cancels the work, where there is some, and raises `KeyboardInterrupt` else; a second one
    raises it in any case.

    Attributes:
        received: the first signal's number, None before there is one.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._cancel: Callable[[], object] | None = None
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for name in _NAMES:
                number = getattr(signal, name, None)
                # What is ignored stays so: nohup.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._former[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        self._former.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = self.received or number
        if self._cancel is None or again:
            raise KeyboardInterrupt
        self._cancel()

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Within, the first signal calls `cancel`."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    def ignore(self) -> None:
        """From now on Ctrl-C changes nothing: what ends with the process has to end."""
        for number in self._former:
            signal.signal(number, signal.SIG_IGN)
