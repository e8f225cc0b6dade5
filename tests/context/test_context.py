"""Goal: a step's context comes back to the byte, and costs only what is new in it.

Method: properties over histories that grow, are edited, cut, summarised and taken in turns, appended to a list of
events in memory; counts of bytes over 2,000 steps; then the same through a store.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog import Store, _core
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.artifacts.offload import offload, references
from turnlog.context import context, draft, read
from turnlog.context.context import ContextTracker
from turnlog.context.read import ContextReader, NearbyEvents
from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, InvalidPayload, NotFound
from turnlog.reference import Reference

if TYPE_CHECKING:
    import random

LIMIT = 100


class Log:
    """Step events and artifacts in memory, and the tracker that writes them."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.limit = limit
        self.events: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.reads = 0
        self.tracker = self.resumed(None)

    def resumed(self, last: int | None) -> ContextTracker:
        return ContextTracker(self.read, put=self.put, fetch=self.fetch, limit=self.limit, last=last)

    def put(self, source: bytes, /, *, media_type: str, summary: str | None) -> Reference:
        digest = hashlib.sha256(source).hexdigest()
        self.blobs[digest] = source
        return Reference(digest, len(source), media_type=media_type, summary=summary)

    def fetch(self, reference: Reference) -> bytes:
        if reference.digest not in self.blobs:
            raise ArtifactNotFound("gone")
        return self.blobs[reference.digest]

    def read(self, ordinal: int) -> Any:
        self.reads += 1
        if not 1 <= ordinal <= len(self.events):
            raise NotFound("no such event", ordinal=ordinal)
        return json.loads(self.events[ordinal - 1])

    def append(self, payload: Any) -> int:
        self.events.append(_core.canonical(offload(payload, self.limit, put=self.put)))
        return len(self.events)

    def step(self, messages: list[Any]) -> int:
        ordinal = self.append({"step": "s", "context": self.tracker.encode(messages)})
        self.tracker.recorded(ordinal)
        return ordinal

    def stored(self, ordinal: int) -> Any:
        return self.read(ordinal)["context"]


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


TEXTS = st.text(max_size=8) | st.integers(0, 5).map(lambda number: f"{number}" * (LIMIT + 5))
MESSAGES = st.one_of(
    st.builds(said, TEXTS),
    st.sampled_from([said("a"), said("b"), said("c")]),
    st.sampled_from(
        [{}, [], "text", None, 1.5, 2**70, ["at", 1, 0, 1], {"$artifact": {"digest": "0" * 64, "size": 1}}]
    ),
    st.builds(lambda data: {"type": "image", "media_type": "image/png", "data": data}, TEXTS),
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Any]]:
    """Draw what one or two agents send, step after step."""
    agents: list[list[Any]] = [draw(st.lists(MESSAGES, max_size=4)) for _ in range(draw(st.integers(1, 2)))]
    sent: list[list[Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        history = agents[draw(st.integers(0, len(agents) - 1))]
        at = draw(st.integers(0, len(history)))
        match draw(
            st.sampled_from(["append", "append", "edit", "cut", "summarise", "insert", "remove", "again", "swap"])
        ):
            case "append":
                history += draw(st.lists(MESSAGES, min_size=1, max_size=3))
            case "edit" if at < len(history):
                history[at] = draw(MESSAGES)
            case "cut":
                del history[at:]
            case "summarise":
                history[:at] = [draw(MESSAGES)]
            case "insert":
                history.insert(at, draw(MESSAGES))
            case "remove":
                del history[at : at + 1]
            case "swap":
                history.reverse()
            case _:
                pass
        sent.append(list(history))
    return sent


def canonical_all(contexts: list[list[Any]]) -> list[bytes]:
    return [_core.canonical(messages) for messages in contexts]


@given(histories(), st.sampled_from([LIMIT, None]))
def test_every_context_comes_back_to_the_byte(sent: list[list[Any]], limit: int | None) -> None:
    log = Log(limit)
    ordinals = [log.step(messages) for messages in sent]
    assert canonical_all([log.tracker.decode(ordinal) for ordinal in ordinals]) == canonical_all(sent)
    assert [log.stored(ordinal)["count"] for ordinal in ordinals] == [len(messages) for messages in sent]


@given(histories(), st.integers(1, 4))
def test_contexts_written_out_anew_and_resumed_in_between_come_back_too(sent: list[list[Any]], chain: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "CHAIN_MIN", chain)
        patch.setattr(context, "KNOWN_MAX", 3)
        patch.setattr(context, "INLINE_MAX_BYTES", 60)
        patch.setattr(context, "_BATCH_BYTES", 80)
        patch.setattr(context, "_RECENT_MAX", 2)
        log = Log()
        ordinals = []
        for number, messages in enumerate(sent):
            ordinals.append(log.step(messages))
            if number % 3 == 2:
                log.tracker = log.resumed(ordinals[-1])
        assert canonical_all([log.tracker.decode(ordinal) for ordinal in ordinals]) == canonical_all(sent)
        assert log.tracker.read_error is None


@given(histories())
def test_a_message_that_was_stored_is_not_stored_again(sent: list[list[Any]]) -> None:
    log = Log(None)
    seen: set[bytes] = set()
    for messages in sent:
        added = log.stored(log.step(messages))["added"]
        new = [part for part in added if isinstance(part, dict) or part[0] == "value"]
        fresh = {_core.canonical(message) for message in messages} - seen
        assert len(new) == len(fresh)
        seen |= fresh


def test_two_thousand_steps_cost_less_than_three_tenths_more_than_their_messages(rng: random.Random) -> None:
    log = Log(64 * 1024)
    history: list[Any] = []
    for number in range(2000):
        history.append(said(rng.randbytes(490).hex(), "user" if number % 2 else "assistant"))
        log.step(history)
    frame_bytes = 104 + 16 + 8 + 4  # header, type, trailer, half the padding
    stored = sum(map(len, log.events)) + frame_bytes * len(log.events)
    messages = sum(len(_core.canonical(message)) for message in history)
    assert messages > 2000 * 1000
    assert stored < 1.3 * messages
    assert log.tracker.decode(2000) == history
    assert log.tracker.decode(1234) == history[:1234]


@pytest.fixture
def rng() -> random.Random:
    import random

    return random.Random(17)


def test_reading_a_short_context_after_many_steps_reads_few_events() -> None:
    log = Log()
    window: list[Any] = []
    for number in range(600):
        window = [*window, said(str(number))][-20:]
        log.step(window)
    log.reads = 0
    assert log.tracker.decode(600) == window
    assert log.reads <= 32 + 1 + 20


def test_two_agents_that_take_turns_each_keep_their_prefix() -> None:
    log = Log()
    one, two = [said("one")], [said("two")]
    for number in range(40):
        one.append(said(f"1 {number}"))
        two.append(said(f"2 {number}"))
        log.step(one)
        last = log.step(two)
    assert log.stored(last)["kept"] == 40
    assert log.stored(last)["base"] == last - 2


def test_a_summary_in_place_of_a_prefix_costs_the_summary() -> None:
    log = Log()
    history = [said(f"message {number}") for number in range(200)]
    log.step(history)
    ordinal = log.step([said("summary"), *history[150:]])
    assert log.stored(ordinal)["added"] == [said("summary"), ["base", 150, 200]]


def test_an_edit_in_the_middle_costs_the_edit() -> None:
    log = Log()
    history = [said(f"message {number}") for number in range(200)]
    log.step(history)
    history[100] = said("edited")
    ordinal = log.step(history)
    assert log.stored(ordinal) == {"base": 1, "kept": 100, "added": [said("edited"), ["base", 101, 200]], "count": 200}


def test_a_megabyte_image_seen_on_each_of_five_hundred_steps_is_stored_once(tmp_path: Path, rng: random.Random) -> None:
    image = base64.b64encode(rng.randbytes(1 << 20)).decode()
    artifacts = ArtifactStore(tmp_path)
    log = Log(64 * 1024)
    log.tracker = ContextTracker(log.read, put=artifacts.put, fetch=artifacts.read)
    for number in range(500):  # each time in another message, so that no message is known
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
        messages = [{"role": "user", "content": [block, {"type": "text", "text": f"step {number}"}]}]
        ordinal = log.step(messages)
    assert log.tracker.decode(ordinal) == messages
    assert sum(map(len, log.events)) < 500 * 500
    names = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.stat().st_size for path in names] == [1 << 20]


def test_a_context_larger_than_a_payload_goes_into_few_batches() -> None:
    log = Log(64 * 1024)
    history = [said(f"{number} " + "x" * 40_000) for number in range(600)]
    ordinal = log.step(history)
    assert len(log.events[0]) < 5 << 20
    assert 2 <= len(log.blobs) <= 4
    assert log.tracker.decode(ordinal) == history
    assert {found.digest for found in references(log.read(ordinal))} == set(log.blobs)
    history.append(said("more"))
    assert log.stored(log.step(history))["added"] == [said("more")]


def test_a_message_with_many_long_strings_stays_one_message() -> None:
    log = Log(1000)
    message = {"role": "user", "content": [{"type": "text", "text": f"{number}" * 2000} for number in range(9)]}
    ordinal = log.step([message])
    assert len(log.blobs) == 9
    assert log.tracker.decode(ordinal) == [message]


def test_a_response_that_an_event_holds_is_referred_to() -> None:
    log = Log()
    response = {"role": "assistant", "content": "long " * 100}
    history: list[Any] = [said("hello")]
    log.step(history)
    ordinal = log.append({"step": "s", "response": response})
    log.tracker.learn(response, ordinal, ("response",))
    history += [response, said("go on")]
    last = log.step(history)
    assert log.stored(last)["added"] == [["in", ordinal, ["response"]], said("go on")]
    assert log.tracker.decode(last) == history
    log.tracker = log.resumed(last)
    assert log.stored(log.step(history))["added"] == []


def test_messages_of_a_decoded_context_are_separate_objects() -> None:
    log = Log()
    found = log.tracker.decode(log.step([said("same"), said("same")]))
    found[0]["content"] = "changed"
    assert found[1] == said("same")


def test_a_message_changed_in_place_is_seen() -> None:
    log = Log()
    history = [said("one"), said("two")]
    log.step(history)
    history[0]["content"] = "changed"
    assert log.tracker.decode(log.step(history)) == [said("changed"), said("two")]
    assert log.tracker.decode(1) == [said("one"), said("two")]


def test_true_and_one_are_not_the_same_message() -> None:
    log = Log()
    log.step([{"n": 1}])
    assert _core.canonical(log.tracker.decode(log.step([{"n": True}]))) == b'[{"n":true}]'


def test_a_context_that_was_not_appended_is_forgotten() -> None:
    log = Log()
    log.step([said("one")])
    log.tracker.encode([said("one"), said("lost")])
    last = log.step([said("one"), said("lost")])
    assert log.stored(last)["added"] == [said("lost")]
    with pytest.raises(InvalidInput, match="no context was encoded"):
        log.tracker.recorded(9)


def test_a_message_that_is_not_json_is_refused() -> None:
    log = Log()
    with pytest.raises(InvalidPayload):
        log.tracker.encode([{"content": b"bytes"}])


def test_a_session_whose_last_context_is_lost_stores_the_next_one_whole() -> None:
    log = Log()
    log.step([said("x" * (LIMIT + 1))])
    log.blobs.clear()
    log.tracker = log.resumed(1)
    stored = log.stored(log.step([said("y")]))
    assert stored == {"base": None, "kept": 0, "added": [said("y")], "count": 1}
    assert isinstance(log.tracker.read_error, ArtifactNotFound)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {"base": None, "kept": 0, "count": 0},
        {"base": 2, "kept": 0, "added": [], "count": 0},
        {"base": True, "kept": 0, "added": [], "count": 0},
        {"base": 1, "kept": 2, "added": [], "count": 2},
        {"base": 1, "kept": 1, "added": [], "count": 2},
        {"base": 1, "kept": 1, "added": [["base", 0, 5]], "count": 6},
        {"base": 1, "kept": 1, "added": [["at", 1, 7, 1]], "count": 2},
        {"base": 1, "kept": 1, "added": [["at", 3, 0, 1]], "count": 2},
        {"base": 1, "kept": 1, "added": [["in", 1, ["absent"]]], "count": 2},
        {"base": 1, "kept": 1, "added": [["from the future"]], "count": 2},
        {"base": 1, "kept": 1, "added": [["batch", {"$artifact": 5}, 1]], "count": 2},
        {"base": 1, "kept": 1, "added": [5], "count": 2},
    ],
)
def test_a_stored_context_that_makes_no_sense_is_damage_and_never_a_shorter_list(stored: Any) -> None:
    log = Log()
    log.step([said("one")])
    log.events.append(json.dumps({"context": stored}).encode())
    with pytest.raises(Damaged, match="the context of event"):
        log.tracker.decode(2)


def test_a_batch_with_another_number_of_messages_is_damage() -> None:
    log = Log()
    reference = log.put(b"[1]", media_type="application/json", summary=None)
    part = ["batch", {"$artifact": reference.as_payload()}, 2]
    log.events.append(json.dumps({"context": {"base": None, "kept": 0, "added": [part], "count": 2}}).encode())
    with pytest.raises(Damaged, match="does not hold 2 messages"):
        log.tracker.decode(1)


def test_the_page_names_every_part() -> None:
    text = (Path(__file__).parents[2] / "EVENTS.md").read_text(encoding="utf-8")
    section = text.partition("\n## Contexts")[2].partition("\n## ")[0]
    source = Path(read.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'`\["(\w+)"', section)) == set(re.findall(r'\["(\w+)", ', source))


@settings(max_examples=20)
@given(st.lists(st.binary(max_size=1), max_size=40), st.integers(0, 40))
def test_the_common_prefix_is_found(items: list[bytes], at: int) -> None:
    other = [*items[:at], b"other", *items[at + 1 :]]
    expected = min(at, len(items))
    assert draft.common_prefix(items, other) == expected
    assert draft.common_prefix(items, list(items)) == len(items)


def test_contexts_go_through_a_store_and_are_taken_up_by_the_next_process(tmp_path: Path) -> None:
    artifacts = ArtifactStore(tmp_path)
    history = [said("hello"), said("x" * 100_000)]

    def appended(store: Store, id: str, last: int | None) -> int:
        session = store.session(id)
        tracker = ContextTracker(NearbyEvents(session.events), put=artifacts.put, fetch=artifacts.read, last=last)
        payload = offload({"step": "s", "context": tracker.encode(history)}, put=artifacts.put)
        ordinal = session.append("step.started", payload).ordinal
        tracker.recorded(ordinal)
        assert tracker.decode(ordinal) == history
        return ordinal

    with Store.open(tmp_path) as store:
        id = store.create().id
        first = appended(store, id, None)
    history.append(said("more"))
    with Store.open(tmp_path) as store:
        second = appended(store, id, first)
        stored: Any = store.session(id).event(second).payload
        assert stored["context"] == {"base": first, "kept": 2, "added": [said("more")], "count": 3}
        reader = ContextReader(NearbyEvents(store.session(id).events), artifacts.read)
        assert reader.places(second) == ([(first, 0), (first, 1), (second, 0)], 2)


def test_events_close_together_are_found_with_few_questions(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []
    with Store.open(tmp_path) as store:
        session = store.create()
        for number in range(2, 1500):
            session.append("note.written", {"number": number}, durability="buffered")

        def events(*, after: int, before: int) -> Any:
            asked.append((after, before))
            return session.events(after=after, before=before)

        read = NearbyEvents(events)
        for ordinal in (*range(1499, 1, -1), *range(2, 1500)):
            assert read(ordinal) == {"number": ordinal}
        assert len(asked) <= 6
        with pytest.raises(NotFound, match="no event 1500"):
            read(1500)


def test_damage_beside_an_event_does_not_hide_it() -> None:
    class Handle:
        ordinal, payload = 7, {"whole": True}

    def events(*, after: int, before: int) -> Any:
        if after < 6:
            raise Damaged("event 6 is lost")
        return [Handle()] if before == 8 else []

    assert NearbyEvents(events)(7) == {"whole": True}
    with pytest.raises(Damaged):
        NearbyEvents(lambda **_: events(after=0, before=7))(6)
