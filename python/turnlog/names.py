"""Every name on disk: built and parsed here, and nowhere else.

Owns: the layout of FORMAT.md section 1. Invariant: `parse_x(x_name(...))` gives the parts back and every near miss
gives None. Must not know: what the files hold; it touches no file.
"""

from __future__ import annotations

import os

STORE_FILE = "store.json"
SESSIONS = "sessions"
ARTIFACTS = "artifacts"
LIVE = "live"
QUARANTINE = "quarantine"
INDEX = "index.db"
INDEX_SIDE_FILES = ("index.db-wal", "index.db-shm")
LOCK = "LOCK"
TEMP_SUFFIX = ".tmp"
RAW_SUFFIX = ".seg"
COMPACTED_SUFFIX = ".seg.zst"
PACKED_SUFFIX = ".zst"

_ORDINAL_DIGITS = 20
_PREFIX_DIGITS = 8
_ID_CHARACTERS = 36
_DIGEST_CHARACTERS = 64
_ID_DASHES = 4
_HEX = frozenset("0123456789abcdef")


def is_session_id(name: str) -> bool:
    """Tell whether `name` is a UUID in lower-case text form."""
    return (
        len(name) == _ID_CHARACTERS
        and name[8] == name[13] == name[18] == name[23] == "-"
        and name.count("-") == _ID_DASHES
        and _is_hex(name.replace("-", ""))
    )


def shard(session_id: str) -> str:
    """Return the folder below `sessions/` that holds the session: its last two hex digits."""
    return session_id[-2:]


def is_shard(name: str) -> bool:
    """Tell whether `name` can be a folder made by `shard`."""
    return len(name) == len("ff") and _is_hex(name)


def session_dir(store: str, session_id: str) -> str:
    """Return the folder of a session."""
    return os.path.join(store, SESSIONS, shard(session_id), session_id)


def store_of(session_dir: str) -> str:
    """Return the store that a session's folder belongs to."""
    return os.path.dirname(os.path.dirname(os.path.dirname(session_dir)))


def live_path(store: str, session_id: str) -> str:
    """Return the marker that says the session is, or was, open for writing."""
    return os.path.join(store, LIVE, session_id)


def segment_name(first_ordinal: int, segment_id: bytes, *, compacted: bool = False) -> str:
    """Return a segment's file name; `segment_id` is its 16 bytes."""
    suffix = COMPACTED_SUFFIX if compacted else RAW_SUFFIX
    return f"{first_ordinal:0{_ORDINAL_DIGITS}d}-{segment_id[:4].hex()}{suffix}"


def parse_segment_name(name: str) -> tuple[int, str, bool] | None:
    """Return (first ordinal, first 8 hex of the segment id, compacted), or None for any other name."""
    compacted = name.endswith(COMPACTED_SUFFIX)
    suffix = COMPACTED_SUFFIX if compacted else RAW_SUFFIX
    stem = name.removesuffix(suffix)
    digits, dash, prefix = stem.partition("-")
    if stem == name or not dash or len(digits) != _ORDINAL_DIGITS or len(prefix) != _PREFIX_DIGITS:
        return None
    if not (digits.isascii() and digits.isdigit() and _is_hex(prefix)):
        return None
    return int(digits), prefix, compacted


def quarantine_path(store: str, session_id: str, time_us: int, segment_file: str, offset: int) -> str:
    """Return where repair puts the bytes it takes out of `segment_file` at `offset`."""
    return os.path.join(store, QUARANTINE, session_id, f"{time_us}-{segment_file}-{offset}")


def quarantined_session(store: str, session_id: str, time_us: int) -> str:
    """Return the folder that takes in a session that is forgotten."""
    return os.path.join(store, QUARANTINE, session_id, f"{time_us}-forgotten")


def quarantined_index(store: str, time_us: int) -> str:
    """Return the folder that takes in an index that cannot be read, with its WAL."""
    return os.path.join(store, QUARANTINE, f"index-{time_us}")


def is_digest(name: object) -> bool:
    """Tell whether `name` is a SHA-256 as 64 lower-case hex digits."""
    return isinstance(name, str) and len(name) == _DIGEST_CHARACTERS and _is_hex(name)


def artifact_dir(store: str, digest: str) -> str:
    """Return the folder of an artifact: named after the first two hex digits of its digest."""
    return os.path.join(store, ARTIFACTS, digest[:2])


def artifact_path(store: str, digest: str, *, packed: bool = False) -> str:
    """Return the file of an artifact: its plain bytes, or with `packed` their zstd blocks."""
    return os.path.join(artifact_dir(store, digest), digest + (PACKED_SUFFIX if packed else ""))


def parse_artifact_name(name: str) -> tuple[str, bool] | None:
    """Return (digest, packed), or None for any other name."""
    stem = name.removesuffix(PACKED_SUFFIX)
    return (stem, stem != name) if is_digest(stem) else None


def _is_hex(text: str) -> bool:
    return bool(text) and _HEX.issuperset(text)
