"""Settings: where they come from, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from churnbench.config import load_settings
from churnbench.errors import UsageError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CHURNBENCH_HOME", "CHURNBENCH_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("churnbench.toml").write_text('home = "from-file"\nsaas_latency = "real"\n')
    assert load_settings().home == tmp_path / "from-file"
    monkeypatch.setenv("CHURNBENCH_HOME", "from-environment")
    assert load_settings().home == tmp_path / "from-environment"
    assert load_settings(home=Path("from-flag")).home == tmp_path / "from-flag"
    assert load_settings(home=None).saas_latency == "real"


def test_an_unknown_environment_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHURNBENCH_LGO", "x")
    with pytest.raises(UsageError, match=r"CHURNBENCH_LGO.*known: .*CHURNBENCH_HOME"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"home = ", "not valid TOML"),
        (b"hmoe = 'x'\n", "hmoe"),
        (b"profile = 'cloud'\n", "profile.*embedded"),
        (b"home = '\xff'\n", "UTF-8"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(text: bytes, why: str) -> None:
    Path("churnbench.toml").write_bytes(text)
    with pytest.raises(UsageError, match=why) as caught:
        load_settings()
    assert "\n" not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    settings = load_settings(postgres_url="postgresql://u:geheim@h/db")
    assert "geheim" not in repr(settings)
    assert "geheim" not in str(settings)
