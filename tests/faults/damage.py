"""Sessions to damage, and ways to damage them.

Owns: a session of several segments whose events are known, and one function per kind of damage. Each returns the
ordinals that are lost by it. Must not know: what turnlog makes of the damage.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, cast

from turnlog import Store, names
from turnlog._core import HEADER_BYTES, SegmentReader
from turnlog.index.index import Index
from turnlog.log.segments import list_segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turnlog.log.recovery import Witness

    Lost = set[int]
    Injury = Callable[["Victim"], Lost]

EVENTS = 46
ROLL_BYTES = 8192


class Victim:
    """A closed session of several segments; `facts` maps each ordinal to (event id, type, digest)."""

    def __init__(self, path: Path, *, events: int = EVENTS, durability: str = "durable") -> None:
        self.store = str(path)
        with Store.open(path, roll_bytes=ROLL_BYTES) as store:
            session = store.create(title="victim")
            self.session = session.id
            for number in range(events - 1):
                session.append("note.written", {"n": number, "text": "x" * (300 + number)}, durability=durability)
            session.close()
        self.folder = names.session_dir(self.store, self.session)
        self.facts = self.read()

    def read(self, on_damage: str = "raise") -> dict[int, tuple[bytes, str, bytes]]:
        """Return what can be read now."""
        with Store.open(self.store, create=False, read_only=True) as store:
            events = store.session(self.session).events(on_damage=on_damage)
            return {event.ordinal: (event.event_id, event.type, event.digest) for event in events}

    def witness(self) -> Witness | None:
        """Return what the index saw synced; None when it is gone."""
        if not os.path.exists(os.path.join(self.store, names.INDEX)):
            return None
        index = Index.open(self.store, read_only=True)
        try:
            return cast("Witness | None", index.witness(self.session))
        finally:
            index.close()

    def forget(self) -> None:
        """Take the index away."""
        for name in (names.INDEX, *names.INDEX_SIDE_FILES):
            if os.path.exists(os.path.join(self.store, name)):
                os.unlink(os.path.join(self.store, name))

    def files(self) -> dict[str, bytes]:
        """Return the content of everything in the session folder but the lock."""
        return {
            name: content(os.path.join(self.folder, name)) for name in os.listdir(self.folder) if name != names.LOCK
        }

    def quarantined(self) -> list[str]:
        """Return the paths of everything in quarantine."""
        root = os.path.join(self.store, names.QUARANTINE)
        return [os.path.join(folder, name) for folder, _, found in os.walk(root) for name in found]

    def segments(self) -> list[str]:
        """Return the paths of the segments, oldest first."""
        return [file.path for file in list_segments(self.folder)]

    def held_by(self, path: str) -> dict[int, int]:
        """Return the offset of each event that a segment holds, by ordinal."""
        with SegmentReader(path) as reader:
            first = reader.header["fields"]["first_ordinal"]
            events, *_ = reader.replay(HEADER_BYTES, first, limit=1 << 20)
            return {event.ordinal: event.offset for event in events}

    def middle(self) -> str:
        """Return a segment that is neither the first nor the last one."""
        return self.segments()[1]

    def newest(self) -> str:
        """Return the last segment that holds events."""
        return [path for path in self.segments() if self.held_by(path)][-1]


def edit(path: str, offset: int, data: bytes) -> None:
    """Overwrite bytes in place."""
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def cut(path: str, size: int) -> None:
    """Shorten a file."""
    os.truncate(path, size)


def content(path: str) -> bytes:
    """Return all bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def flip(path: str, offset: int) -> None:
    """Flip one bit."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def third_event(victim: Victim, path: str) -> tuple[int, int, int]:
    """Return (ordinal, offset, offset of the next event) of an event inside a segment."""
    held = sorted(victim.held_by(path).items())
    return held[2][0], held[2][1], held[3][1]


# -- injuries: each returns the ordinals that nobody can serve any more ---------------------------------------------


def flipped_payload(victim: Victim) -> Lost:
    ordinal, offset, _ = third_event(victim, victim.middle())
    flip(victim.middle(), offset + 150)
    return {ordinal}


def flipped_header(victim: Victim) -> Lost:
    ordinal, offset, _ = third_event(victim, victim.middle())
    flip(victim.middle(), offset + 20)
    return {ordinal}


def flipped_trailer(victim: Victim) -> Lost:
    ordinal, _, following = third_event(victim, victim.middle())
    flip(victim.middle(), following - 3)
    return {ordinal}


def flipped_in_the_newest(victim: Victim) -> Lost:
    ordinal, offset, _ = third_event(victim, victim.newest())
    flip(victim.newest(), offset + 150)
    return {ordinal}


def zeroed_frames(victim: Victim) -> Lost:
    held = sorted(victim.held_by(victim.middle()).items())
    edit(victim.middle(), held[1][1], bytes(held[4][1] - held[1][1]))
    return {ordinal for ordinal, _ in held[1:4]}


def zeroed_sector(victim: Victim) -> Lost:
    held = victim.held_by(victim.middle())
    start = (sorted(held.values())[2] // 512 + 1) * 512
    edit(victim.middle(), start, bytes(512))
    ends = [*sorted(held.values())[1:], os.path.getsize(victim.middle())]
    return {o for (o, at), end in zip(sorted(held.items()), ends, strict=True) if at < start + 512 and end > start}


def truncated_middle(victim: Victim) -> Lost:
    ordinal, offset, _ = third_event(victim, victim.middle())
    last = max(victim.held_by(victim.middle()))
    cut(victim.middle(), offset + 40)
    return set(range(ordinal, last + 1))


def truncated_at_a_frame(victim: Victim) -> Lost:
    ordinal, offset, _ = third_event(victim, victim.middle())
    last = max(victim.held_by(victim.middle()))
    cut(victim.middle(), offset)
    return set(range(ordinal, last + 1))


def truncated_to_nothing(victim: Victim) -> Lost:
    lost = set(victim.held_by(victim.middle()))
    cut(victim.middle(), 0)
    return lost


def zeroed_file(victim: Victim) -> Lost:
    lost = set(victim.held_by(victim.middle()))
    edit(victim.middle(), 0, bytes(os.path.getsize(victim.middle())))
    return lost


def missing_middle(victim: Victim) -> Lost:
    lost = set(victim.held_by(victim.middle()))
    os.unlink(victim.middle())
    return lost


def missing_first(victim: Victim) -> Lost:
    lost = set(victim.held_by(victim.segments()[0]))
    os.unlink(victim.segments()[0])
    return lost


def two_missing(victim: Victim) -> Lost:
    first, second = victim.segments()[1:3]
    lost = set(victim.held_by(first)) | set(victim.held_by(second))
    os.unlink(first)
    os.unlink(second)
    return lost


def missing_newest(victim: Victim) -> Lost:
    paths = victim.segments()
    lost: Lost = set()
    for path in paths[paths.index(victim.newest()) :]:
        lost |= set(victim.held_by(path))
        os.unlink(path)
    return lost


def moved_frame(victim: Victim) -> Lost:
    """A frame is written over another one of the same segment."""
    path = victim.middle()
    held = sorted(victim.held_by(path).items())
    data = content(path)
    frame = data[held[1][1] : held[2][1]]
    at = held[4][1]
    edit(path, at, frame)
    return {held[4][0]}


def swapped_frames(victim: Victim) -> Lost:
    """Two neighbours change places."""
    path = victim.middle()
    held = sorted(victim.held_by(path).items())
    data = content(path)
    one, two, end = held[1][1], held[2][1], held[3][1]
    edit(path, one, data[two:end] + data[one:two])
    return {held[1][0], held[2][0]}


def frames_of_another_segment(victim: Victim) -> Lost:
    """A misdirected write: a piece of the segment before lies in the middle one, at the same offset."""
    first, path = victim.segments()[:2]
    held = sorted(victim.held_by(path).items())
    source = sorted(victim.held_by(first).values())
    start = next(at for at in source if at >= held[2][1])
    end = source[source.index(start) + 2]
    edit(path, start, content(first)[start:end])
    ends = [at for _, at in held[1:]] + [os.path.getsize(path)]
    return {o for (o, at), after in zip(held, ends, strict=True) if at < end and after > start}


def duplicated_file(victim: Victim) -> Lost:
    """A segment also lies under the name of another one."""
    name = os.path.basename(victim.middle())
    shutil.copy(victim.middle(), os.path.join(victim.folder, names.segment_name(9999, bytes.fromhex(name[21:29]) * 4)))
    return set()


def renamed_segment(victim: Victim) -> Lost:
    os.rename(victim.middle(), os.path.join(victim.folder, names.segment_name(15, b"\x01" * 16)))
    return set()


def hidden_segment(victim: Victim) -> Lost:
    os.rename(victim.middle(), victim.middle() + ".bak")
    return set()


def foreign_segment(victim: Victim) -> Lost:
    """Another session's segment lies under the name of a missing one."""
    with Store.open(victim.store, roll_bytes=ROLL_BYTES) as store:
        other = store.create(title="another")
        for number in range(30):
            other.append("note.written", {"n": number, "text": "y" * 400})
        folder = names.session_dir(victim.store, other.id)
        other.close()
    lost = set(victim.held_by(victim.middle()))
    shutil.copy(list_segments(folder)[1].path, victim.middle())
    return lost


def line_ends_doubled(victim: Victim) -> Lost:
    """A text-mode copy turned each LF into CR LF."""
    lost = set(victim.held_by(victim.middle()))
    data = content(victim.middle())
    with open(victim.middle(), "wb") as file:
        file.write(data.replace(b"\n", b"\r\n"))
    return lost


def line_ends_halved(victim: Victim) -> Lost:
    """A text-mode copy turned each CR LF into LF."""
    lost = set(victim.held_by(victim.middle()))
    data = content(victim.middle())
    with open(victim.middle(), "wb") as file:
        file.write(data.replace(b"\r\n", b"\n"))
    return lost


def lost_header(victim: Victim) -> Lost:
    """The first block of a segment is gone; its neighbours know what it said."""
    edit(victim.middle(), 0, bytes(HEADER_BYTES))
    return set()


def lost_first_header(victim: Victim) -> Lost:
    edit(victim.segments()[0], 0, b"\xaa" * HEADER_BYTES)
    return set()


def degraded_header(victim: Victim) -> Lost:
    flip(victim.middle(), 60)
    return set()


def degraded_second_copy(victim: Victim) -> Lost:
    flip(victim.middle(), 2048 + 60)
    return set()


def dirt_between_the_copies(victim: Victim) -> Lost:
    flip(victim.middle(), 1500)
    return set()
