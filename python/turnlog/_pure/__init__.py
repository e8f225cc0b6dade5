"""The reference core: the contract of the record cores in Python, mirrored file by file in `rust/`.

Owns: the list of the contract's names and where each lives. Invariant: `turnlog._native` has the same names.
Names are imported when first asked for, so that a process on the native core pays nothing for this one.
"""

from __future__ import annotations

from turnlog._pure.format import CONTRACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._pure.blocks import encode_table
    from turnlog._pure.canon import canonical
    from turnlog._pure.chain import chain_next, chain_start, checksum, digest
    from turnlog._pure.commit import Committer
    from turnlog._pure.event import Event
    from turnlog._pure.folder import Folder
    from turnlog._pure.frame import encode_frame
    from turnlog._pure.header import decode_header, encode_header
    from turnlog._pure.idindex import IdIndex
    from turnlog._pure.reader import SegmentReader
    from turnlog._pure.receipt import Receipt
    from turnlog._pure.writer import Writer

IMPLEMENTATION = "pure"

_HOMES = {
    "Committer": "commit",
    "Event": "event",
    "Folder": "folder",
    "IdIndex": "idindex",
    "Receipt": "receipt",
    "SegmentReader": "reader",
    "Writer": "writer",
    "canonical": "canon",
    "chain_next": "chain",
    "chain_start": "chain",
    "checksum": "chain",
    "decode_header": "header",
    "digest": "chain",
    "encode_frame": "frame",
    "encode_header": "header",
    "encode_table": "blocks",
}

__all__ = [
    "CONTRACT",
    "IMPLEMENTATION",
    "Committer",
    "Event",
    "Folder",
    "IdIndex",
    "Receipt",
    "SegmentReader",
    "Writer",
    "canonical",
    "chain_next",
    "chain_start",
    "checksum",
    "decode_header",
    "digest",
    "encode_frame",
    "encode_header",
    "encode_table",
]


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        """Import a name of the contract from its home."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
