"""Checks the artifacts of a store: each is named after the SHA-256 of its content.

Owns: the walk over `artifacts/`. Reads only, in bounded pieces. Must not know: which events refer to them.
"""

from __future__ import annotations

import os

from turnlog import names
from turnlog.artifacts.file import Content
from turnlog.errors import Damaged, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def wrong_artifacts(store_path: str, *, full: bool) -> Iterator[tuple[str, str]]:
    """Yield (path below the store, what is wrong) for each file that is not what its name says.

    Only `full` reads the content.
    """
    root = os.path.join(store_path, names.ARTIFACTS)
    for folder, _, files in sorted(os.walk(root)):
        for name in sorted(files):
            if name.endswith(names.TEMP_SUFFIX):
                continue
            path = os.path.join(folder, name)
            parsed = names.parse_artifact_name(name)
            if parsed is None or os.path.basename(folder) != parsed[0][:2]:
                yield os.path.relpath(path, store_path), "the name is not that of an artifact of this folder"
            elif full and (wrong := _what_is_wrong(path)) is not None:
                yield os.path.relpath(path, store_path), wrong


def _what_is_wrong(path: str) -> str | None:
    try:
        with Content(path) as content:
            content.check()
    except (Damaged, StorageError) as error:
        return error.message
    return None
