"""Headers that repair has to make: for a segment whose own is lost, and for bridges.

Owns: deriving each field from neighbours. Invariant: the result links to both neighbours as the lost header did. Pure.
Must not know: files, the order of repair.
"""

from __future__ import annotations

import os

from turnlog import _core
from turnlog.log.lineage import FORKED, stated_origin
from turnlog.log.segments import first_fields, successor_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from turnlog.log.lineage import Origin
    from turnlog.log.segments import SegmentFile
    from turnlog.repair.plan import Slot

_ZERO_ID = bytes(16)


def bridge_fields(before: Slot, segment_id: bytes, epoch: int) -> dict[str, Any]:
    """Return the header of a segment that stands between `before` and a successor that names `segment_id`."""
    length = before.report.scan["commit_end"]
    fields = successor_fields(before.fields, length=length, ordinal=before.last, chain=before.chain, epoch=epoch)
    return {**fields, "segment_id": segment_id}


def first_bridge_fields(successor: Mapping[str, Any] | None, session_id: str = "") -> dict[str, Any]:
    """Return the header of a segment that stands for a session's missing beginning.

    `successor` is the header of the oldest segment left; None when none is left, then `session_id` names the session.
    """
    if successor is None:
        return first_fields(session_id)
    parent = {name: successor[name] for name in ("session_id", "parent_session_id", "fork_ordinal", "parent_chain")}
    fields = successor_fields(
        {**parent, "segment_number": 0, "segment_id": _ZERO_ID},
        length=0,
        ordinal=successor["fork_ordinal"],
        chain=_core.chain_start(*parent.values()),
        epoch=successor["writer_epoch"],
    )
    return {**fields, "segment_id": successor["prev_segment_id"]}


def lost_header_fields(
    file: SegmentFile, segment_id: bytes, session_id: str, before: Slot | None, successor: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the header of a segment that lost its own, from its name, its neighbours and its first frame."""
    epoch = next((header.epoch for _, header, _ in _core.salvage(file.path, segment_id)), 1)
    if before is not None:
        before.last = file.first_ordinal - 1 if before.rewritten else before.last
        fields = bridge_fields(before, segment_id, epoch)
        return {**fields, "first_ordinal": file.first_ordinal, "prev_last_ordinal": file.first_ordinal - 1}
    origin = _stated_origin(file, segment_id) if successor is None else None
    fields = first_fields(session_id, origin=origin) if origin else first_bridge_fields(successor, session_id)
    missing = file.first_ordinal > fields["first_ordinal"]
    return {
        **fields,
        "segment_id": segment_id,
        "writer_epoch": epoch,
        "first_ordinal": file.first_ordinal,
        "prev_last_ordinal": file.first_ordinal - 1,
        "prev_segment_id": os.urandom(16) if missing else _ZERO_ID,  # of the bridge that will stand there
        "segment_number": 2 if missing else 1,
    }


def _stated_origin(file: SegmentFile, segment_id: bytes) -> Origin | None:
    """Return where a fork was forked, as the first event of its first segment states it."""
    _, header, payload = next(_core.salvage(file.path, segment_id), (0, None, None))
    if header is None or payload is None or header.type != FORKED or header.ordinal != file.first_ordinal:
        return None
    import json

    origin = stated_origin(json.loads(payload))
    return origin if origin is not None and origin.ordinal + 1 == file.first_ordinal else None
