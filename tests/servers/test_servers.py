"""The servers of the tests: found again after a kill, and gone after a stop."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tools.servers import NotInstallableError, attach, mongo, weaviate
from tools.servers._process import answers, ports


@pytest.mark.parametrize(
    "server_module",
    [pytest.param(mongo, marks=pytest.mark.mongo), pytest.param(weaviate, marks=pytest.mark.weaviate)],
    ids=["mongo", "weaviate"],
)
def test_a_killed_server_comes_back_at_its_address_and_a_stopped_one_is_gone(
    tmp_path: Path, server_module: ModuleType
) -> None:
    try:
        server = server_module.start(tmp_path)
    except NotInstallableError as error:
        pytest.skip(str(error))
    try:
        assert server.alive
        assert attach(tmp_path) == server
        assert server_module.start(tmp_path) == server
        server.kill()
        assert not server.alive
        assert attach(tmp_path) is None
        server = server_module.start(tmp_path)
        assert server.memory > 0
    finally:
        server.stop()
    assert attach(tmp_path) is None
    assert not answers(int(server.url.rsplit(":", 1)[1]))


def test_a_folder_keeps_its_ports(tmp_path: Path) -> None:
    first = ports(tmp_path, "a", "b")
    assert ports(tmp_path, "b", "a", "c") == first | ports(tmp_path, "c")
    assert len(set(ports(tmp_path, "a", "b", "c").values())) == 3
