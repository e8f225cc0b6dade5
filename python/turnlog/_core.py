"""The single switch between the record cores.

Owns: which core serves this process. `TURNLOG_CORE=native` or `=pure` forces one, and its absence is then an error;
without it the native core is used if it was built. Also passes on numbers of the format.
Invariants: every other module takes the core's names from here; a core that was built but is broken, or of another
contract, is an error, never a reason to fall back. Must not know: what the cores do.
"""

from __future__ import annotations

import os
from importlib import import_module

from turnlog import _pure
from turnlog._pure.format import *  # noqa: F403 - numbers of the format, for modules that need one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from turnlog._pure import *  # noqa: F403 - the reference says which names there are and what their types are
    from turnlog._pure.frame import FrameHeader as FrameHeader  # noqa: PLC0414 - passed on as a type

_NATIVE = "turnlog._native"


def _choose() -> ModuleType:
    wanted = os.environ.get("TURNLOG_CORE", "")
    if wanted not in {"", "native", "pure"}:
        raise ImportError(f"TURNLOG_CORE is {wanted!r}; it can be 'native', 'pure' or unset")
    if wanted == "pure":
        return _pure
    try:
        native = import_module(_NATIVE)
    except ModuleNotFoundError as error:
        if wanted == "native" or error.name != _NATIVE:
            raise
        return _pure
    missing = [name for name in _pure.__all__ if not hasattr(native, name)]
    if missing or native.CONTRACT != _pure.CONTRACT:
        detail = f"lacks {missing[0]}" if missing else f"has contract {native.CONTRACT}, not {_pure.CONTRACT}"
        raise ImportError(f"the native core is stale, it {detail}; build it again: maturin develop -r")
    return native


def _take(core: ModuleType) -> None:
    """Make the contract's names those of the core."""
    for name in _pure.__all__:
        globals()[name] = getattr(core, name)


def salvage(path: str, segment_id: bytes) -> Iterator[tuple[int, FrameHeader, bytes | None]]:
    """Walk what is left of a damaged segment; offline work, which the reference core does for both."""
    from turnlog._pure import salvage as home

    return home.salvage(path, segment_id)


def provable_id(path: str, stated: Iterable[bytes]) -> bytes | None:
    """Return the segment id under which frames of a file with a damaged header are authentic."""
    from turnlog._pure import salvage as home

    return home.provable_id(path, stated)


def claimed_ordinal(data: bytes, segment_ids: Iterable[bytes], offsets: Iterable[int]) -> int | None:
    """Return the ordinal of the frame in `data` if it belongs to one of the other places."""
    from turnlog._pure import salvage as home

    return home.claimed_ordinal(data, segment_ids, offsets)


def stated_ordinal(data: bytes) -> int | None:
    """Return the ordinal that a frame header states, believed or not."""
    from turnlog._pure import salvage as home

    return home.stated_ordinal(data)


_take(_choose())
