"""The identity of a store: `store.json`, which says that a folder is a store and in which format.

Owns: making the folders of a new store and reading the identity of an existing one. Invariant: a folder that holds
sessions is never taken for an empty one. Must not know: sessions' contents, the index.
"""

from __future__ import annotations

import fcntl
import os

from turnlog import _core, disk, names
from turnlog.errors import Damaged, NewerFormat, StoreNotFound
from turnlog.ids import format_id, new_id, now_us

FORMAT = 1
_REPAIR: tuple[str, ...] = ("sessionctl repair --store {store}",)


def ensure(folder: str, *, create: bool) -> None:
    """Check the identity of the store in `folder`; with `create` make a store where there is none.

    Raises StoreNotFound, NewerFormat, Damaged (sessions without a readable `store.json`), NoSpace, ReadOnly,
    StorageError.
    """
    path = os.path.join(folder, names.STORE_FILE)
    if not os.path.exists(path):
        if _holds_sessions(folder) and not os.path.exists(path):  # else another process made it meanwhile
            raise _damaged(f"{folder} holds sessions but no {names.STORE_FILE}", folder)
        if not create:
            message = f"there is no store at {folder}"
            raise StoreNotFound(message, store=folder)
        _make(folder)
    _check(path, folder)


def write_identity(folder: str) -> None:
    """Write `store.json` durably, with a new store id."""
    content = _core.canonical({"format": FORMAT, "store_id": format_id(new_id()), "created_us": now_us()})
    disk.create_file(os.path.join(folder, names.STORE_FILE), lambda descriptor: disk.write_all(descriptor, content, 0))


def _make(folder: str) -> None:
    """Create the folders, then `store.json`; a crash in between is finished by the next open."""
    try:
        disk.make_directories(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # of several processes that make it at once, one does
            if not os.path.exists(os.path.join(folder, names.STORE_FILE)):
                for part in (names.SESSIONS, names.LIVE):
                    disk.make_directory(os.path.join(folder, part))
                write_identity(folder)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise disk.translate(error, f"creating the store {folder}").at(store=folder) from error


def _check(path: str, folder: str) -> None:
    try:
        with open(path, "rb") as file:
            version = _version(file.read())
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(f"{path} is not readable as the identity of a store", folder) from error
    except OSError as error:
        raise disk.translate(error, f"reading {path}").at(store=folder) from error
    if not isinstance(version, int) or version < 1:
        raise _damaged(f"{path} names the format {version!r}", folder)
    if version > FORMAT:
        message = f"the store has format {version}; this turnlog reads format {FORMAT}"
        raise NewerFormat(message, store=folder)


def _version(content: bytes) -> object:
    """Return the format that the content names. Raises ValueError, KeyError or TypeError for other content."""
    before, found, rest = content.partition(b',"format":')
    version, comma, _ = rest.partition(b",")
    if found and comma and before.startswith(b'{"created_us":') and version.isdigit():
        return int(version)  # as `write_identity` writes it: no need for the JSON decoder, whose import takes longer
    import json

    return json.loads(content)["format"]


def _holds_sessions(folder: str) -> bool:
    try:
        shards = os.listdir(os.path.join(folder, names.SESSIONS))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(names.is_shard(name) for name in shards)


def _damaged(message: str, folder: str) -> Damaged:
    error = Damaged(message, store=folder)
    error.next = _REPAIR
    return error
