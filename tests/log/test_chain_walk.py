"""Goal: the chain at any ordinal is the one that the receipts add up to, wherever the walk to it begins.

Method: logs of several steps of CHAIN_MARKs, whole, damaged and rewritten, against the chain added up event by event.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.forks import folder
from turnlog import Store, _core
from turnlog.log.chain_walk import link_at, nearest_mark
from turnlog.log.log import Log
from turnlog.log.segments import list_segments
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Session

STEP = _core.CHAIN_STEP_EVENTS
EVENTS = 4 * STEP + 9
PIECE_BYTES = 16 * 1024
MARK_BYTES = 152


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def fill(session: Session, *, group: int) -> None:
    """Append notes until there are EVENTS events, in atomic groups of that size."""
    notes = [("note.written", {"text": f"{number} " * (number % 40)}) for number in range(2, EVENTS + 1)]
    for start in range(0, len(notes), group):
        session.append_many(notes[start : start + group], atomic=group > 1, durability="buffered")
    session.flush()


def chains(session: Session) -> list[bytes]:
    """Return the chain after each ordinal, 0 first, added up from the events."""
    log = session.log()
    chain = log.open_reader(list_segments(log.directory)[0]).header["fields"]["prev_chain"]
    log.close()
    added = [chain]
    for event in session.events():
        chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
        added.append(chain)
    return added


@pytest.mark.parametrize("group", [1, 2, 50, 300])
@pytest.mark.parametrize("closed", [False, True])
def test_the_chain_at_each_ordinal_is_that_of_the_events_before_it(store: Store, group: int, *, closed: bool) -> None:
    session = store.create()
    fill(session, group=group)
    expected = chains(session)
    if closed:
        session.close()
    log = Log(folder(store, session.id), session.id)
    assert len(expected) == EVENTS + 1
    links = [log.own_link_at(ordinal) for ordinal in range(EVENTS + 1)]
    assert [link and link[0] for link in links] == expected
    assert all(
        link[1].ordinal == ordinal for ordinal, link in enumerate(links) if link is not None and link[1] is not None
    )
    assert log.own_link_at(EVENTS + 1) is None
    log.close()


def place_of(session: Session, ordinal: int) -> tuple[int, int, bytes]:
    log = session.log()
    file = list_segments(log.directory)[0]
    reader = log.open_reader(file)
    header = _core.HEADER_BYTES, 1, reader.header["fields"]["prev_chain"]
    try:
        return nearest_mark(reader, partial(log.seek, file, reader), header, ordinal)
    finally:
        log.close()


def test_the_walk_begins_at_the_last_mark_that_is_not_behind_the_ordinal(store: Store) -> None:
    session = store.create()
    fill(session, group=3)
    begins = {ordinal: place_of(session, ordinal)[1] for ordinal in (1, STEP - 1, STEP, STEP + 1, 3 * STEP - 1, EVENTS)}
    assert begins == {
        1: 1,
        STEP - 1: 1,
        STEP: STEP + 1,
        STEP + 1: STEP + 1,
        3 * STEP - 1: 2 * STEP + 1,
        EVENTS: 4 * STEP + 1,
    }


def test_a_mark_is_found_wherever_it_lies_in_what_is_read_at_once(store: Store) -> None:
    places = []
    for padding in range(0, 320, 8):
        session = store.create(durability="buffered")
        session.append("note.written", {"text": "x" * (15_250 + padding)}, durability="buffered")
        session.append_many([("note.written", {})] * (STEP - 1), durability="buffered")
        place, ordinal, chain = place_of(session, STEP)
        assert (ordinal, chain) == (STEP + 1, chains(session)[STEP])
        places.append(place - _core.HEADER_BYTES)
        session.close()
    cut = [place for place in places if PIECE_BYTES - place % PIECE_BYTES < MARK_BYTES]
    assert 0 < len(cut) < len(places)


def damaged(session: Session, place: int) -> None:
    """Close the session and flip a bit there."""
    path = list_segments(session.log().directory)[0].path
    session.close()
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes((byte ^ 1,)))


def test_a_damaged_mark_is_passed_over_for_the_one_before_it(store: Store) -> None:
    session = store.create()
    fill(session, group=1)
    expected = chains(session)
    damaged(session, place_of(session, 3 * STEP)[0] + _core.FRAME_HEADER_MIN_BYTES)
    again = store.session(session.id)
    assert place_of(again, 3 * STEP)[1] == 2 * STEP + 1
    assert again.log().chain_at(4 * STEP + 1) == expected[4 * STEP + 1]
    assert [event.ordinal for event in again.events(on_damage="skip")] == list(range(1, EVENTS + 1))
    assert not check_session(store.path, session.id).ok


@pytest.mark.parametrize("group", [1, 2])
def test_the_chain_behind_lost_events_is_known_from_the_next_mark(store: Store, group: int) -> None:
    session = store.create()
    fill(session, group=group)
    expected = chains(session)
    log = session.log()
    file = list_segments(log.directory)[0]
    lost = log.seek(file, log.open_reader(file), STEP + 9)[1] + 8  # its header is damaged too
    log.close()
    damaged(session, lost)
    plan_session(store.path, session.id).apply()
    again = store.session(session.id)
    assert check_session(store.path, session.id).ok
    assert place_of(again, EVENTS)[1] == 4 * STEP + 1
    assert again.head()[1] == expected[EVENTS].hex()
    if group == 1:
        assert again.log().chain_at(2 * STEP + 1) == expected[2 * STEP + 1]


def test_a_mark_that_states_another_chain_is_tampering(store: Store) -> None:
    session = store.create()
    fill(session, group=1)
    place, ordinal, chain = place_of(session, 2 * STEP)
    path = list_segments(session.log().directory)[0].path
    session.close()
    with _core.SegmentReader(path) as reader:
        segment_id = reader.header["fields"]["segment_id"]
        durable_off = int.from_bytes(reader.read(place + 24, 8), "little")
    false = _core.encode_frame(
        segment_id=segment_id,
        offset=place,
        kind=_core.KIND_CHAIN_MARK,
        flags=_core.FLAG_COMMIT,
        epoch=1,
        ordinal=ordinal - 1,
        durable_off=durable_off,
        event_id=bytes(16),
        time_us=0,
        type="",
        payload=chain[::-1],
    )
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(false)
    findings = check_session(store.path, session.id).findings
    assert {finding["verdict"] for finding in findings} == {"TAMPERED"}


def test_a_walk_from_the_header_needs_no_mark(store: Store) -> None:
    session = store.create()
    fill(session, group=1)
    expected = chains(session)
    log = session.log()
    reader = log.open_reader(list_segments(log.directory)[0])
    header = _core.HEADER_BYTES, 1, reader.header["fields"]["prev_chain"]
    link = link_at(reader, header, EVENTS - 1)
    assert link is not None
    assert link[0] == expected[EVENTS - 1]
    log.close()
