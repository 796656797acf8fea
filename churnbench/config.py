"""Settings: `churnbench.toml`, then the environment (`CHURNBENCH_*`), then flags."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_dir
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from churnbench.errors import UsageError

__all__ = ["Settings", "load_settings"]

_PREFIX = "CHURNBENCH_"
_OUTSIDE = {"CHURNBENCH_CACHE", "CHURNBENCH_TEST_SERVERS"}
"""Read by the project's own scripts, not by the program."""


class Settings(BaseSettings):
    """Everything that is set outside a command's own flags.

    Attributes:
        home: folder of the embedded log, stores and runs.
        profile: `embedded`, or `servers` by URL.
        postgres_url: PostgreSQL of the servers profile; None: the embedded one.
        embedder: `auto` takes sentence-transformers where it is installed.
        saas_latency: `virtual` accounts the SaaS's 350 ms without waiting; `real` waits.
        domain: the subject to benchmark.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid", toml_file="churnbench.toml")

    home: Path = Field(default_factory=lambda: Path(user_data_dir("churnbench")))
    profile: Literal["embedded", "servers"] = "embedded"
    postgres_url: SecretStr | None = None
    embedder: Literal["auto", "minilm", "hashing"] = "auto"
    saas_latency: Literal["virtual", "real"] = "virtual"
    domain: str = "sam"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags first, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(**flags: Any) -> Settings:
    """The settings, with `flags` that are not None on top.

    Raises:
        UsageError: the file is malformed, or a key or value is unknown.
    """
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields} | _OUTSIDE
    for key in os.environ:
        if key.startswith(_PREFIX) and key not in known:
            raise UsageError(f"the environment sets {key}, which is no setting; known: {', '.join(sorted(known))}")
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"churnbench.toml is not valid TOML: {error}; mend or remove it") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"churnbench.toml is not UTF-8: {error.reason} at byte {error.start}; save it as UTF-8"
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"the setting {name!r} is wrong: {first['msg']}; settings: {', '.join(Settings.model_fields)}"
        ) from error
    return settings.model_copy(update={"home": settings.home.expanduser().absolute()})
