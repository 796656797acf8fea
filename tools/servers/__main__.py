"""Installs, starts and stops real servers from a shell.

Usage: python -m tools.servers install|start|stop NAME... [--in FOLDER]; names: kafka, mongo, weaviate, all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tools.servers import NotInstallableError, Server, StartError, attach, kafka, mongo, weaviate

_INSTALL: dict[str, Callable[[], Path]] = {
    "kafka": kafka.install,
    "mongo": mongo.install,
    "weaviate": weaviate.install,
}
_START: dict[str, Callable[[Path], Server]] = {"kafka": kafka.start, "mongo": mongo.start, "weaviate": weaviate.start}


def main() -> int:
    """Runs one verb; 0: done, 1: it failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.servers", description=__doc__)
    parser.add_argument("verb", choices=["install", "start", "stop"])
    parser.add_argument(
        "names", nargs="+", choices=[*_START, "all"], metavar="NAME", help="kafka, mongo, weaviate, all"
    )
    default = Path(tempfile.gettempdir()) / "churnbench-servers"
    parser.add_argument("--in", dest="folder", type=Path, default=default, help="data and logs (default: %(default)s)")
    given = parser.parse_args()
    for name in dict.fromkeys(_START if "all" in given.names else given.names):
        began = time.monotonic()
        try:
            if given.verb == "install":
                print(f"{name}: {_INSTALL[name]()} ({time.monotonic() - began:.1f} s)")
            elif given.verb == "start":
                server = _START[name](given.folder / name)
                known = {"name": name, "url": server.url, "pid": server.pid, **server.extra}
                print(json.dumps({key: value for key, value in known.items() if key != "password"}))
            else:
                running = attach(given.folder / name)
                if running is not None:
                    running.stop()
                print(f"{name}: {'stopped' if running is not None else 'did not run'}")
        except (NotInstallableError, StartError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
