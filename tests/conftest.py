"""Fixtures that every test may use.

`core` runs a test once on each record core. The native one is skipped where it was not built, unless
`TURNLOG_CORE=native` says that it must be there: then its absence is an error, so that a green run cannot hide a
missing extension.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="session", params=["pure", "native"])
def core(request: pytest.FixtureRequest) -> ModuleType:
    """Return the module of one core."""
    return load_core(str(request.param))


@pytest.fixture(scope="session")
def native() -> ModuleType:
    """Return the native core, for tests that compare it with the reference."""
    return load_core("native")


def load_core(name: str) -> ModuleType:
    """Import a core; skip if it is the native one and was not built."""
    module = f"turnlog._{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module or os.environ.get("TURNLOG_CORE") == name:
            raise
        pytest.skip("the native core is not built: maturin develop -r")
