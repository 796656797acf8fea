"""Weaviate, built from the Go module proxy: needs `go`. The build takes minutes and 1.6 GiB once."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from tools.servers._install import cached, need, run
from tools.servers._process import Server, attach, ports, spawn

__all__ = ["VERSION", "install", "start"]

VERSION = "1.35.2"


def install() -> Path:
    """The server's program.

    Raises:
        NotInstallableError: Go is missing, or the build failed.
    """
    need("go")

    def make(folder: Path) -> None:
        module = f"github.com/weaviate/weaviate/cmd/weaviate-server@v{VERSION}"
        run(["go", "install", "-trimpath", "-ldflags", "-s -w", module], env={"GOBIN": str(folder)})

    return cached(f"weaviate-{VERSION}", make) / "weaviate-server"


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v1/.well-known/ready", timeout=1) as reply:  # noqa: S310 - loopback
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def start(folder: Path, api_key: str | None = None) -> Server:
    """Starts a server over `folder`, or gives the one that runs there.

    Args:
        folder: its data; empty or missing for a new one.
        api_key: required from clients; None: anybody may come.

    Returns:
        The server; `url` is the HTTP address, `extra` has `http_port` and `grpc_port`.

    Raises:
        NotInstallableError: see `install`.
        StartError: it did not start.
    """
    folder = folder.absolute()
    running = attach(folder)
    if running is not None:
        return running
    program = install()
    port = ports(folder, "http", "grpc", "gossip", "data", "raft", "raft_internal")
    access = (
        {"AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true"}
        if api_key is None
        else {
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
            "AUTHENTICATION_APIKEY_ENABLED": "true",
            "AUTHENTICATION_APIKEY_ALLOWED_KEYS": api_key,
            "AUTHENTICATION_APIKEY_USERS": "bench",
        }
    )
    env = {
        "HOME": os.environ.get("HOME", str(folder)),
        "PATH": os.environ["PATH"],
        "PERSISTENCE_DATA_PATH": str(folder / "data"),
        "DEFAULT_VECTORIZER_MODULE": "none",
        "ENABLE_MODULES": "",
        "API_BASED_MODULES_DISABLED": "true",
        "CLUSTER_HOSTNAME": "node1",
        # Without these it takes the machine's own address, and ends where that is an IPv6 one.
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "CLUSTER_BIND_ADDR": "127.0.0.1",
        "CLUSTER_GOSSIP_BIND_PORT": str(port["gossip"]),
        "CLUSTER_DATA_BIND_PORT": str(port["data"]),
        "RAFT_PORT": str(port["raft"]),
        "RAFT_INTERNAL_RPC_PORT": str(port["raft_internal"]),
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "RAFT_TIMEOUTS_MULTIPLIER": "1",
        "GRPC_PORT": str(port["grpc"]),
        "DISABLE_TELEMETRY": "true",
        "GO_PROFILING_DISABLE": "true",
        "USE_BLOCKMAX_WAND": "false",  # with it, the best of a keyword search are not always found
        "LOG_LEVEL": "warning",
        **access,
    }
    url = f"http://127.0.0.1:{port['http']}"
    return spawn(
        "weaviate",
        url,
        folder,
        [str(program), "--host", "127.0.0.1", "--port", str(port["http"]), "--scheme", "http"],
        lambda _: _ready(url),
        env=env,
        extra={"http_port": str(port["http"]), "grpc_port": str(port["grpc"])},
    )
