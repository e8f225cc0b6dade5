"""Checks the artifacts of a store: each is named after the SHA-256 of its content.

Owns: the walk over `artifacts/`. Reads only, in bounded pieces. Must not know: which events refer to them.
"""

from __future__ import annotations

import hashlib
import os
import re

from turnlog import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_NAME = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 1024 * 1024
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def wrong_artifacts(store_path: str, *, full: bool) -> Iterator[tuple[str, str]]:
    """Yield (path below the store, what is wrong) for each file that is not what its name says.

    Only `full` reads the content.
    """
    root = os.path.join(store_path, names.ARTIFACTS)
    for folder, _, files in sorted(os.walk(root)):
        for name in sorted(files):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, store_path)
            if name.endswith(names.TEMP_SUFFIX):
                continue
            if _NAME.fullmatch(name) is None or os.path.basename(folder) != name[:2]:
                yield shown, "the name is not that of an artifact of this folder"
            elif full and name not in _digests(path):
                yield shown, "the content does not have the digest that names it"


def _digests(path: str) -> Iterator[str]:
    """Yield the digest of the content as stored and, when that is compressed, of what it decompresses to."""
    with open(path, "rb") as file:
        yield _digest(file)
        file.seek(0)
        if file.read(len(_ZSTD_MAGIC)) != _ZSTD_MAGIC:
            return
        import zstandard

        file.seek(0)
        try:
            with zstandard.ZstdDecompressor().stream_reader(file) as content:
                yield _digest(content)
        except zstandard.ZstdError:
            return  # no digest matches a frame that does not decompress


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()
