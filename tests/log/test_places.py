"""Places inside a segment that is not sealed: found by halving, whatever the core, beside frames that are no events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.core.segments import SegmentBuilder
from turnlog import Store, names
from turnlog.log import own_log, places
from turnlog.log.log import Log, Window
from turnlog.log.places import Places, looks_sealed, next_frame
from turnlog.log.segments import list_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

SESSION = "00010203-0405-0607-0809-0a0b0c0d0e0f"
EVENTS = 2_000


@pytest.fixture
def on_core(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Let readers be those of one core."""
    for module in (places, own_log):
        if hasattr(module, "_core"):
            monkeypatch.setattr(module._core, "SegmentReader", core.SegmentReader)
    return core


def put(store: Path, builder: SegmentBuilder) -> Log:
    folder = store / names.SESSIONS / names.shard(SESSION) / SESSION
    folder.mkdir(parents=True)
    (folder / names.segment_name(1, builder.segment_id)).write_bytes(builder.data)
    return Log(str(folder), SESSION)


@pytest.fixture
def large(tmp_path: Path) -> Log:
    """Return a log of one open segment with events of all sizes and frames that are no events between them."""
    draw = random.Random(7)
    builder = SegmentBuilder()
    for number in range(EVENTS):
        builder.event(b'"' + b"x" * draw.choice([10, 300, 2_000, 40_000 if number % 50 == 0 else 500]) + b'"')
        if number % 7 == 0:
            builder.sync_mark()
    builder.data += bytes(256 * 1024)
    return put(tmp_path, builder)


@pytest.mark.usefixtures("on_core")
def test_a_place_is_at_or_before_its_ordinal_and_near(large: Log) -> None:
    (file,) = list_segments(large.directory)
    reader = large.open_reader(file)
    assert not looks_sealed(reader)
    events = {event.ordinal: event.offset for event in large.events(Window())}
    for ordinal in (*range(1, EVENTS + 1, 37), EVENTS, EVENTS + 5):
        found, offset = large.seek(file, reader, ordinal)
        following = min(offset_ for number, offset_ in events.items() if number >= found) if found <= EVENTS else offset
        assert found <= ordinal
        assert offset <= following
        assert events[min(ordinal, EVENTS)] - offset < 3 * 64 * 1024


@pytest.mark.usefixtures("on_core")
def test_windows_found_by_halving_are_exact_in_both_directions(large: Log) -> None:
    draw = random.Random(8)
    for _ in range(25):
        after = draw.randrange(EVENTS)
        before = after + draw.randrange(1, 150)
        expected = list(range(after + 1, min(before, EVENTS + 1)))
        assert [event.ordinal for event in large.events(Window(after, before))] == expected
        assert [event.ordinal for event in large.events_reversed(Window(after, before))] == expected[::-1]
    assert [event.ordinal for event in large.events_reversed(Window())] == list(range(EVENTS, 0, -1))


@pytest.mark.usefixtures("on_core")
def test_stops_fall_to_the_first_ordinal(large: Log) -> None:
    (file,) = list_segments(large.directory)
    stops = list(large.stops(file, None))
    assert stops == sorted(set(stops), reverse=True)
    assert (stops[-1], list(large.stops(file, 2))) == (1, [1])


@pytest.mark.usefixtures("on_core")
def test_a_frame_behind_damage_that_is_no_event_costs_no_event(tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    start = builder.event()
    builder.sync_mark()
    builder.event()
    builder.event()
    builder.close()
    builder.data[start + 125] ^= 1
    log = put(tmp_path, builder)
    with log.open_reader(list_segments(log.directory)[0]) as reader:
        assert next_frame(reader, start) == (3, builder.starts[2])
    log = Log(log.directory, SESSION)
    assert [event.ordinal for event in log.events(Window(on_damage="skip"))] == [1, 3, 4]
    assert [error.lost for error in log.damage] == [(2, 2)]


def test_a_sealed_segment_is_searched_by_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "store", roll_bytes=300_000) as store:
        session = store.create()
        for _ in range(20):
            session.append_many([("note.written", {"text": "x" * 900})] * 50, durability="buffered")
        files = list_segments(session.log().directory)
        assert len(files) > 2
        log = Places(session.log().directory, session.id)

        def refuse(*_: object) -> Iterator[None]:
            raise AssertionError

        monkeypatch.setattr(places, "_halve", refuse)
        found, _ = log.seek(files[0], log.open_reader(files[0]), files[1].first_ordinal - 1)
        assert files[0].first_ordinal < found < files[1].first_ordinal
