"""Canonical JSON back into values, for whoever holds bytes and no event.

Owns: nothing. Invariant: what the canonical form can hold is read, also what msgspec refuses. Must not know: what the
bytes are about. Importing this costs the import of msgspec.
"""

from __future__ import annotations

from typing import Any

import msgspec


def decode(data: bytes) -> Any:
    r"""Return the value. Raises ValueError when the bytes are no JSON.

    >>> decode(b'{"a":"\\ud800"}')
    {'a': '\ud800'}
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # lone surrogates
        import json

        return json.loads(data)
