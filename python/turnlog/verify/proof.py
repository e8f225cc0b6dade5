"""Heads that were kept elsewhere: their form, the chain they are compared with, whose they are.

Owns: the form of a head, the walk to an ordinal. Reads only. Must not know: verdicts. A chain proves content, order and
completeness of everything before it only together with the check of all segments and links.
"""

from __future__ import annotations

import re

from turnlog import names
from turnlog._core import HEADER_BYTES
from turnlog.errors import InvalidInput, TurnlogError
from turnlog.log.chain_walk import link_at
from turnlog.log.folders import session_ids
from turnlog.log.log import Log
from turnlog.log.notes import CHAIN_BYTES
from turnlog.log.segments import open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.log.survey import SegmentReport


_HEAD = re.compile(r"(?:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):)?([0-9]{1,19}):([0-9a-f]{64})")


def head_text(session_id: str, ordinal: int, chain: str) -> str:
    """Return a head as it is kept: `SESSION:ORDINAL:CHAIN`."""
    return f"{session_id}:{ordinal}:{chain}"


def parse_head(text: str, session_id: str) -> tuple[int, bytes]:
    """Return (ordinal, chain) of a head of this session; the session's id in front may be missing.

    Raises InvalidInput for another form, and for a head that names another session.
    """
    parts = _HEAD.fullmatch(text.strip().lower())
    if parts is None:
        raise InvalidInput(f"a head is [SESSION:]ORDINAL:CHAIN with 64 hex digits, not {text!r}")
    if parts[1] not in (None, session_id):
        raise of_another(parts[1], session_id, f"{parts[2]}:{parts[3]}")
    return int(parts[2]), bytes.fromhex(parts[3])


def of_another(other: str, session_id: str, head: str) -> InvalidInput:
    """Return the error for a head of the session `other`."""
    error = InvalidInput(f"the head is one of session {other}", session=session_id)
    error.next = (f"sessionctl verify {other} --expect {head}",)
    return error


def owner_of(store_path: str, session_id: str, ordinal: int, chain: bytes) -> str | None:
    """Return another session of the store that has this chain at the ordinal: a head fits no other session by chance.

    Looks into every session, so ask it only about a head that does not fit. One that cannot be read is passed over.
    """
    for other in session_ids(store_path):
        if other == session_id:
            continue
        log = Log(names.session_dir(store_path, other), other)
        try:
            link = log.own_link_at(ordinal)
            if link is not None and link[0] == chain:
                return other
        except TurnlogError:
            continue  # what is wrong with that session is no answer to this question
        finally:
            log.close()
    return None


def chain_at(reports: Sequence[SegmentReport], ordinal: int) -> tuple[bytes | None, str | None]:
    """Return (chain after the event with this ordinal, segment name); the chain is None when it cannot be computed.

    Ordinal 0 and the last inherited ordinal of a fork give the chain before the first event. Raises StorageError.
    """
    place: str | None = None
    for report in reversed(reports):
        fields = report.fields
        if fields is None or fields["prev_last_ordinal"] > ordinal:
            continue
        place = report.file.name
        if fields["prev_last_ordinal"] == ordinal:
            return fields["prev_chain"], place
        stated = [note["payload"] for note in report.scan["notes"] if note["ordinal"] == ordinal]
        if stated:
            return stated[-1][:CHAIN_BYTES], place
        with open_segment(report.file) as reader:
            header = HEADER_BYTES, fields["first_ordinal"], fields["prev_chain"]
            link = link_at(reader, header, ordinal)  # from the header on: a proof trusts no mark in between
            return None if link is None else link[0], place
    return None, place
