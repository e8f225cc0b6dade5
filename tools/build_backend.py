"""The build backend: maturin for the wheel with the native core, hatchling for the one without.

Owns: the choice, made by `TURNLOG_PURE=1` and by nothing else, so that a build cannot lose its core unnoticed.
Invariant: both backends read the same `[project]` table. Must not know: how either of them builds.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

_PURE = os.environ.get("TURNLOG_PURE") == "1"

Settings = dict[str, Any] | None


def _backend() -> Any:
    return importlib.import_module("hatchling.build" if _PURE else "maturin")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:  # noqa: ARG001 - named by PEP 517
    """Name the chosen backend."""
    return ["hatchling>=1.27"] if _PURE else ["maturin>=1.9.4,<2"]


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel; return its file name."""
    return str(_backend().build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel that points at this checkout; return its file name."""
    return str(_backend().build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the source archive; return its file name."""
    return str(_backend().build_sdist(sdist_directory, config_settings))
