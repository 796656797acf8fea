"""How the program begins and ends: one line for whatever stops it, and the exit code."""

from __future__ import annotations

import os
import sys

from churnbench.collector import collect_seldom
from churnbench_cli._signals import Signals

__all__ = ["main"]


def main() -> None:
    """Runs the command line; exit 0 done, 1 ran and found a failure, 2 usage, 130 interrupted, 143 terminated."""
    collect_seldom()
    with Signals() as signals:
        try:
            code = _run(signals)
        except KeyboardInterrupt:
            code = _interrupted(signals)
        if code >= _SIGNALLED:
            signals.ignore()
    sys.exit(code)


_SIGNALLED = 128


def _run(signals: Signals) -> int:
    # Loading takes a moment, in which Ctrl-C is one line as well.
    from churnbench_cli._app import call
    from churnbench_cli._ending import failure

    try:
        code = call(signals, sys.argv[1:])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if signals.received is not None:
            raise KeyboardInterrupt from error
        line, code = failure(error)
        _say(line)
        return code


def _interrupted(signals: Signals) -> int:
    """Says how to go on."""
    number = signals.received or 2
    word = "interrupted" if number == 2 else "terminated"
    ending = sys.modules.get("churnbench_cli._ending")
    _say(f"{word}; {ending.going_on() if ending is not None else 'nothing had begun'}")
    return _SIGNALLED + number


def _say(line: str) -> None:
    sys.stderr.write(f"churnbench: {line}\n")
    sys.stderr.flush()
