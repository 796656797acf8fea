"""Real servers for the tests, without a container engine: installed into a cache, started on free loopback ports.

`install()` of a server's module fetches and builds it once into `$CHURNBENCH_CACHE/servers`; `start(folder)`
starts it over the data in `folder` and returns a `Server`; the same folder gives the same ports again, so that a
killed server comes back where its clients expect it. `python -m tools.servers` does the same from a shell.
"""

from tools.servers._install import NotInstallableError
from tools.servers._process import Server, StartError, attach

__all__ = ["NotInstallableError", "Server", "StartError", "attach"]
