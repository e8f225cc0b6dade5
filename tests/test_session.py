"""The raw level of the API: append, read windows, repeat an id, follow."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store
from turnlog.compact.compact import compact_session
from turnlog.errors import (
    Closed,
    Conflict,
    InvalidId,
    InvalidInput,
    InvalidPayload,
    InvalidType,
    NotFound,
    PayloadTooLarge,
)
from turnlog.ids import format_id, new_id
from turnlog.log.segments import list_segments
from turnlog.names import session_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Session

MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    return store.create(title="a title")


def fill(session: Session, count: int) -> None:
    session.append_many([("note.written", {"number": number}) for number in range(count)])


def ordinals(found: Iterator[Any]) -> list[int]:
    return [event.ordinal for event in found]


def test_an_appended_event_is_read_back_as_it_was(session: Session) -> None:
    receipt = session.append("note.written", {"text": "déjà vu", "n": 2**64 + 1})
    event = session.event(receipt.ordinal)
    assert (event.type, event.payload, event.id) == ("note.written", {"text": "déjà vu", "n": 2**64 + 1}, receipt.id)
    assert event.digest == receipt.digest
    assert event.durable


def test_the_first_event_says_what_the_session_is(session: Session) -> None:
    first = session.event(1)
    assert (first.type, first.payload) == ("session.created", {"title": "a title"})


def test_windows_are_exact(session: Session) -> None:
    fill(session, 20)
    assert ordinals(session.events()) == list(range(1, 22))
    assert ordinals(session.events(after=5, before=9)) == [6, 7, 8]
    assert ordinals(session.events(after=5, limit=2)) == [6, 7]
    assert ordinals(session.events(reverse=True, limit=3)) == [21, 20, 19]
    assert ordinals(session.events(after=5, before=9, reverse=True)) == [8, 7, 6]
    assert ordinals(session.events(after=21)) == []
    assert ordinals(session.events(types=["session.created"])) == [1]


def test_windows_cross_segments(tmp_path: Path) -> None:
    with Store.open(tmp_path / "small", roll_bytes=8192) as store:
        session = store.create()
        for number in range(60):
            session.append("note.written", {"number": number, "text": "x" * 500}, durability="buffered")
        assert len(list((tmp_path / "small").glob("sessions/*/*/*.seg"))) > 3
        assert ordinals(session.events()) == list(range(1, 62))
        assert ordinals(session.events(after=17, before=44)) == list(range(18, 44))
        assert ordinals(session.events(after=17, before=44, reverse=True)) == list(range(43, 17, -1))
        assert ordinals(session.events(types=["note.written"], after=40)) == list(range(41, 62))


def test_raw_bytes_are_kept_verbatim(session: Session) -> None:
    receipt = session.append("source.line", b'{"b": 1, "a":2}\r\n\xff', raw=True)
    event = session.event(receipt.ordinal)
    assert event.is_raw
    assert event.raw == event.payload == b'{"b": 1, "a":2}\r\n\xff'


def test_the_same_id_with_equal_content_returns_the_first_receipt(session: Session) -> None:
    given = format_id(new_id())
    first = session.append("note.written", {"text": "once"}, id=given)
    session.append("note.written", {"text": "other"})
    again = session.append("note.written", {"text": "once"}, id=given)
    assert again.ordinal == first.ordinal
    assert len(list(session.events())) == 3


@pytest.mark.parametrize("change", [("note.written", {"text": "twice"}), ("note.edited", {"text": "once"})])
def test_the_same_id_with_other_content_is_a_conflict(session: Session, change: tuple[str, object]) -> None:
    given = format_id(new_id())
    session.append("note.written", {"text": "once"}, id=given)
    with pytest.raises(Conflict) as caught:
        session.append(*change, id=given)
    assert (caught.value.session, caught.value.ordinal) == (session.id, 2)
    assert len(list(session.events())) == 2


def test_the_id_of_an_earlier_run_is_still_known(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        receipt = session.append("note.written", {"text": "once"})
    with Store.open(tmp_path / "store") as store:
        again = store.session(session.id).append("note.written", {"text": "once"}, id=receipt.id)
        assert again.ordinal == receipt.ordinal


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: Any = None
for _ in range(10_000):
    DEEP = [DEEP]
BAD_PAYLOADS = [float("nan"), float("inf"), b"bytes", {1, 2}, CYCLE, DEEP, {1: "key"}, {"a": [object()]}, 10**5000]


@pytest.mark.parametrize(
    "payload", BAD_PAYLOADS, ids=["nan", "inf", "bytes", "set", "cycle", "deep", "key", "object", "digits"]
)
def test_a_payload_that_is_not_json_is_refused_and_writes_nothing(session: Session, payload: object) -> None:
    with pytest.raises(InvalidPayload, match=r"at \$"):
        session.append("note.written", {"a": payload})
    assert len(list(session.events())) == 1
    assert session.append("note.written", {}).ordinal == 2


def test_one_bad_item_keeps_the_whole_batch_out(session: Session) -> None:
    with pytest.raises(InvalidPayload):
        session.append_many([("note.written", {}), ("note.written", {"a": float("nan")})])
    assert len(list(session.events())) == 1


@pytest.mark.parametrize("payload", ["\ud800", {"\udfff": "\u2028\x00"}, 2**64 + 1, -0.0, [], {}, None, True, ""])
def test_an_unusual_payload_survives(session: Session, payload: object) -> None:
    assert session.event(session.append("note.written", payload).ordinal).payload == payload


@pytest.mark.parametrize("type_", ["", "x" * 65, "x" * 300, "with space", "ünicode", "nul\x00"])
def test_a_bad_type_is_refused(session: Session, type_: str) -> None:
    with pytest.raises(InvalidType):
        session.append(type_, {})


def test_a_payload_beyond_the_limit_is_refused(session: Session) -> None:
    with pytest.raises(PayloadTooLarge):
        session.append("note.written", "x" * (17 * MIB))
    assert session.append("note.written", "x" * (15 * MIB)).ordinal == 2


@pytest.mark.parametrize("given", ["", "call_1", "0192f0c4", b"short"])
def test_an_id_that_is_no_uuid_is_refused(session: Session, given: str | bytes) -> None:
    with pytest.raises(InvalidId):
        session.append("note.written", {}, id=given)


def test_an_unknown_durability_is_refused(session: Session) -> None:
    with pytest.raises(InvalidInput, match="durable"):
        session.append("note.written", {}, durability="eventually")


def test_an_ordinal_beyond_the_head_is_not_found(session: Session) -> None:
    with pytest.raises(NotFound):
        session.event(99)


def test_a_closed_session_refuses_everything(session: Session) -> None:
    session.close()
    session.close()
    with pytest.raises(Closed):
        session.append("note.written", {})
    with pytest.raises(Closed):
        session.events()


def test_an_atomic_group_is_followed_whole(store: Store, session: Session) -> None:
    seen: list[int] = []
    ready = threading.Event()

    def follow() -> None:
        for event in session.follow(after=1):
            seen.append(event.ordinal)
            if event.ordinal == 201:
                ready.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for _ in range(20):
        session.append_many([("note.written", {})] * 10, atomic=True, durability="buffered")
    assert ready.wait(30)
    session.close()
    thread.join(30)
    assert seen == list(range(2, 202))


def test_follow_ends_when_nothing_comes(session: Session) -> None:
    fill(session, 3)
    assert ordinals(session.follow(timeout_ms=0)) == [1, 2, 3, 4]


def test_the_head_moves_with_every_event_and_proves_content(tmp_path: Path) -> None:
    heads = set()
    for text in ("one", "two"):
        with Store.open(tmp_path / text) as store, store.create(id="0192f0c4-7a1b-7c3d-8e4f-0123456789ab") as session:
            session.append("note.written", {"text": text})
            heads.add(session.head())
    assert {ordinal for ordinal, _ in heads} == {2}
    assert len(heads) == 2


def test_threads_share_a_session(session: Session) -> None:
    def work(thread: int) -> None:
        for number in range(50):
            session.append("note.written", {"thread": thread, "number": number})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = [event.payload for event in session.events(after=1)]
    assert len(events) == 400
    for number in range(8):
        assert [event["number"] for event in events if event["thread"] == number] == list(range(50))


def test_a_repeated_id_is_answered_while_an_event_before_it_waits_for_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"
    with Store.open(tmp_path / "store") as store, store.create() as session:
        first = session.append("note.written", {"text": "one"}, id=given, durability="buffered")
        appender = session._appender
        assert appender is not None
        start = appender.head()["path"], 4096
        monkeypatch.setattr(appender, "visible", lambda: start)  # as it is while a durable event waits
        assert session.append("note.written", {"text": "one"}, id=given, durability="buffered").ordinal == first.ordinal
        with pytest.raises(Conflict):
            session.append("note.written", {"text": "two"}, id=given, durability="buffered")


def test_types_and_limits_that_fit_nothing_are_no_surprise(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create(tags=["x"]) as session:
        session.append("note.written", {})
        for types in (["\ud800"], ["n\u00f6te"], [""]):
            assert [*session.events(types=types)] == []
            assert [*session.events(types=types, reverse=True)] == []
        assert len([*session.events(types=["note.written", "\ud800"], limit=2**70)]) == 1
        with pytest.raises(InvalidInput):
            session.events(limit=-1)
        with pytest.raises(InvalidInput, match="after is a whole number"):
            session.events(after=-1)
        with pytest.raises(InvalidInput, match="after is a whole number"):
            session.follow(after=-1, timeout_ms=0)
        with pytest.raises(InvalidInput, match="'raise' or 'skip'"):
            session.events(on_damage="ignore")
        assert store.list(tag="\ud800")[0] == store.list(since_us=2**70)[0] == []
        assert len(store.list(since_us=-(2**70))[0]) == 1


def test_one_text_where_a_list_of_texts_is_meant_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        for read in (session.events, session.follow, session.subscribe, store.follow):
            with pytest.raises(InvalidInput, match="not one text"):
                read(types="note.written")
        with pytest.raises(InvalidInput, match="not one text"):
            store.create(tags="ci")


@pytest.mark.parametrize("ordinal", [0, -1, -7])
def test_an_ordinal_that_no_event_has_is_no_damage(session: Session, ordinal: int) -> None:
    with pytest.raises(NotFound):
        session.event(ordinal)


@pytest.mark.parametrize("item", [(), ("x",), ("x", {}, None, False, 1), 5, "ab"])
def test_an_item_of_another_shape_is_refused(tmp_path: Path, item: Any) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        with pytest.raises(InvalidInput):
            session.append_many([("note.written", {}), item])
        assert session.append("note.written", {}).ordinal == 2


def test_ids_are_found_in_segments_that_are_compacted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"
    with Store.open(tmp_path / "store", roll_bytes=8192) as store, store.create() as session:
        first = session.append("note.written", {"text": "one"}, id=given)
        for _ in range(20):
            session.append("note.written", {"text": "x" * 900})
        session.close()
        again = store.session(session.id)
        again.append("note.written", {})
        before = list_segments(session_dir(store.path, session.id))
        assert compact_session(store.path, session.id)["compacted"] > 0
        monkeypatch.setattr("turnlog.log.appender.list_segments", lambda _: before)
        assert again.append("note.written", {"text": "one"}, id=given).ordinal == first.ordinal
