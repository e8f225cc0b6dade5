"""The fold of many events is the fold of each: whatever the core takes, the state is the one the rules come to.

Method: histories - valid, odd, imported, large - are stored in a real segment, read in batches cut at random, folded
both ways and compared field by field, with the order of every dict, which decides what is let go first. On the native
core the tests also ask how much it took, so that none passes because it took nothing.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.workload import Rollout
from tests.core.segments import SegmentBuilder
from tests.histories import Item, histories, history
from turnlog import _core
from turnlog._pure.format import FLAG_COMMIT, FLAG_RAW
from turnlog.errors import Damaged
from turnlog.events import UPCASTERS, VERSIONS
from turnlog.importers.importer import import_path
from turnlog.log.log import Window
from turnlog.state import fold as folding
from turnlog.state.fold import COMMON, Hot, fold_batches
from turnlog.state.records import Messages
from turnlog.state.reduce import RULES, fold, reduce, reduce_stored
from turnlog.state.state import State
from turnlog.state.transitions import CALL, EFFECTS
from turnlog.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turnlog._core import Event

CORPUS = Path(__file__).parents[1] / "corpus"
NATIVE = _core.IMPLEMENTATION == "native"
TOOLS = sorted(type for type in COMMON if type.startswith("tool."))


class Segment:
    """Events in a file, read in batches."""

    def __init__(self, folder: Path, items: Iterable[tuple[str, Any]], first: int = 1) -> None:
        builder = SegmentBuilder(first_ordinal=first)
        for type, payload in items:
            raw = isinstance(payload, bytes)
            flags = FLAG_COMMIT | FLAG_RAW if raw else FLAG_COMMIT
            builder.event(payload if raw else _core.canonical(payload), type=type, flags=flags)
        self.first = first
        self.path = folder / f"{next(_NUMBERS)}.seg"
        self.path.write_bytes(builder.data)

    def batches(self, cuts: Random) -> Iterator[list[Event]]:
        with _core.SegmentReader(str(self.path)) as reader:
            offset, ordinal = _core.HEADER_BYTES, self.first
            while True:
                events, end, ordinal, _, _, fault = reader.replay(offset, ordinal, limit=cuts.choice([1, 7, 300]))
                assert fault is None
                if end == offset:
                    return
                offset = end
                yield events


_NUMBERS = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count what the rules did themselves, and try the core from the first event on."""
    by_rule = [0]

    def counted(state: State, event: Event) -> None:
        by_rule[0] += 1
        original(state, event)

    original = reduce_stored
    monkeypatch.setattr(folding, "reduce_stored", counted)
    monkeypatch.setattr(folding, "LEAD_EVENTS", 0)
    return by_rule


def assert_same(state: State, expected: State) -> None:
    for name in State.__struct_fields__:
        one, other = getattr(state, name), getattr(expected, name)
        assert one == other, name
        assert not isinstance(one, dict) or list(one.items()) == list(other.items()), f"order of {name}"


def check(folder: Path, items: list[tuple[str, Any]], cuts: Random | None = None) -> State:
    """Fold both ways, also from a snapshot in the middle; return the state."""
    random = cuts or Random(7)
    segment = Segment(folder, items)
    expected = State("s")
    for batch in segment.batches(random):
        fold(batch, expected)
    assert_same(fold_batches(segment.batches(random), State("s")), expected)
    middle = random.randrange(len(items))
    again = State("s")
    for batch in Segment(folder, items[:middle]).batches(random):
        fold(batch, again)
    stored = State.from_snapshot(json.loads(_core.canonical(again.to_snapshot())))
    tail = fold_batches(Segment(folder, items[middle:], middle + 1).batches(random), stored)
    assert tail.to_snapshot() == expected.to_snapshot()
    segment.path.unlink()
    return expected


@given(items=histories(200), lost=st.sets(st.integers(1, 200), max_size=12), cuts=st.randoms(use_true_random=False))
def test_what_is_lost_of_a_history_is_noticed_alike(
    folder: Path, items: list[Item], lost: set[int], cuts: Random
) -> None:
    segment = Segment(folder, items)
    expected, state = State("s"), State("s")
    left = [[event for event in batch if event.ordinal not in lost] for batch in segment.batches(cuts)]
    for batch in left:
        fold(batch, expected)
    assert_same(fold_batches(left, state), expected)
    last = max((event.ordinal for batch in left for event in batch), default=0)
    assert state.lost_ordinal == max((ordinal for ordinal in lost if ordinal < last), default=0)
    segment.path.unlink()


@given(items=histories(400), cuts=st.randoms(use_true_random=False))
def test_a_valid_history_folds_as_its_rules_say(folder: Path, items: list[Item], cuts: Random) -> None:
    check(folder, items, cuts)


def test_a_long_history_folds_as_its_rules_say(folder: Path) -> None:
    state = check(folder, history(Random(3), 20_000))
    assert state.calls_folded
    assert len(state.recent_turns) == 64


@pytest.mark.parametrize("make", [Rollout.turns, Rollout.session])
def test_a_rollout_folds_as_its_rules_say(folder: Path, taken: list[int], make: Any) -> None:
    segment = Segment(folder, make(Rollout(), 4000))
    expected = State("s")
    for batch in segment.batches(Random(1)):
        fold(batch, expected)
    assert_same(fold_batches(segment.batches(Random(2)), State("s")), expected)
    assert taken[0] < 300 if NATIVE else taken[0] >= 4000  # of `session`, the first hundred violations


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.5, 1e300, 7, 10**18 - 1, 10**18, 2**63 - 1, 2**63, 2**64, 10**40),
    *("", "t1", "none", "provider", 'a"b\\c\n\x1f', "é" * 250, "\U0001f600 x", "\ud800", "x" * 300, " a \t b\x1c c "),
    *([], ["a", {"b": ['"]', 1]}], {}, {"input": 3, "output": "4"}, {"added": [1, "]", {"}": "["}], "kept": 2}),
    *({"kept": -1}, {"added": {}, "kept": 2**70}, {"source": 1}, {"v": 2}, [["turn"]]),
)
REFERENCES: tuple[Any, ...] = (
    {"$artifact": {"digest": "0" * 64, "media_type": "text/plain", "size": 5, "summary": "a \n long input"}},
    {"$artifact": {"digest": "0" * 64, "size": 5}, "more": {"$artifact": {"summary": "none"}}},
    *({"$artifact": [{"summary": "none"}]}, {"$artifact": {"summary": 3}}, {"summary": "none"}),
    {'"': {"summary": "none"}, "$artifact": {"summary": "behind an escaped key"}},
)
FIELDS: dict[str, tuple[Any, ...]] = {
    "turn": ("t1", "t2", "t\u00e9"),
    "step": ("s1", "s2"),
    "call_id": ("c1", "c2", 'c"3', "c\\"),
    "input": ("Why does\nit  fail?", "w " * 900, [{"type": "text"}], *REFERENCES),
    "effect": EFFECTS,
    "by": ("provider", "user"),
    "name": ("bash", "é" * 400),
    "outcome": ("completed", "failed", "not_executed", "lost"),
    "idempotency_key": ("k1",),
    "attempt": (1, 5),
    "model": ("m1", "m2"),
    "usage": ({"input": 5, "output": 2, "cache_read": 9, "cache_write": 1}, {"input": 10**17}, {"input": 2**62}),
    "context": ({"added": ["a", "b"], "kept": 3, "base": None, "more": "long " * 99}, {"added": ["\\" * 5, '"']}),
    "source": ({"line": 3}, {"file": "a" * 300}, "x"),
    "content": ("text " * 99, 'a "source": "v" ' * 20, {"source": {"turn": "t9"}, "v": 1}),
    "zoo": ("a", {"v": 1}, "long " * 99),
    "v": (1,),
}
RARE = {"v": 0.03, "source": 0.3, "zoo": 0.1, "content": 0.3}


def odd_history(random: Random, events: int, *, strange: float, observed: bool) -> list[Item]:
    """Make events of the common families with fields of every shape; few ids, so that they meet each other."""
    items: list[Item] = [("session.created", {"model": "m1"})]
    types = sorted(COMMON)
    while len(items) < events:
        payload: dict[str, Any] = {}
        for name, regular in FIELDS.items():
            if random.random() < RARE.get(name, 0.8) and (observed or name != "source"):
                payload[name] = random.choice(ODD if random.random() < strange else regular)
        items.append((random.choice([*types, "turn.started", *TOOLS, "session.configured", "acme.note"]), payload))
    return items


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("strange", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_odd_payloads_fold_as_their_rules_say(
    folder: Path, taken: list[int], seed: int, strange: float, observed: bool
) -> None:
    check(folder, odd_history(Random(seed), 1500, strange=strange, observed=observed))
    assert strange or not NATIVE or taken[0] < 1000  # the whole and its second half; violations are many


@given(
    fields=st.dictionaries(st.sampled_from(sorted(FIELDS)), st.sampled_from([*ODD, *sum(FIELDS.values(), ())])),
    type=st.sampled_from(sorted(COMMON)),
    extra=st.dictionaries(st.text(max_size=9), st.one_of(st.text(), st.integers(), st.lists(st.text())), max_size=3),
)
def test_any_single_payload_folds_as_its_rule_says(
    folder: Path, fields: dict[str, Any], type: str, extra: dict[str, Any]
) -> None:
    before: list[Item] = [("turn.started", {"turn": "t1"}), ("tool.proposed", {"turn": "t1", "call_id": "c1"})]
    try:
        _core.canonical(payload := {**extra, **fields})
    except ValueError:
        return  # nothing that can be stored
    check(folder, [*before, (type, payload)])


def paths_to_states() -> dict[str, tuple[str, ...]]:
    """Return for each state of a call the events that lead to it."""
    paths: dict[str, tuple[str, ...]] = {"absent": ()}
    waiting = ["absent"]
    while waiting:
        state = waiting.pop(0)
        for type, target in CALL[state].items():
            if target not in paths:
                paths[target] = (*paths[state], type)
                waiting.append(target)
    return paths


@pytest.mark.parametrize("by", ["provider", "user"])
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("source", [None, {"line": 1}])
def test_every_event_in_every_state_of_a_call(folder: Path, by: str, effect: str, source: Any) -> None:
    items: list[Item] = [("turn.started", {"turn": "t1"})]
    for state, path in paths_to_states().items():
        for type in TOOLS:
            for outcome in ("completed", "not_executed"):
                shared = {"turn": "t1", "call_id": f"{state}-{type}-{outcome}", "source": source}
                items += [(step, {**shared, "by": by, "effect": effect}) for step in path]
                items.append((type, {**shared, "by": by, "outcome": outcome}))
    check(folder, items)


def test_input_is_shortened_as_python_splits_it(folder: Path, taken: list[int]) -> None:
    characters = [chr(code) for code in (*range(0x3100), 0xFEFF, 0x1F600)]
    items: list[Item] = []
    for start in range(0, len(characters), 60):
        text = "".join(f"a{character}" for character in characters[start : start + 60])
        items += [("turn.started", {"turn": f"t{start}", "input": text}), ("turn.completed", {"turn": f"t{start}"})]
    segment = Segment(folder, [("session.created", {}), *items])
    expected, state = State("s"), State("s")
    for batch in segment.batches(Random(1)):  # the window of recent turns holds 64, so compare as they pass
        fold(batch, expected)
        fold_batches([batch], state)
        assert_same(state, expected)
    assert not NATIVE or taken[0] == 1


@pytest.mark.parametrize(
    "items",
    [
        [("step.completed", {"model": f"m{number % 300}", "usage": {"input": number}}) for number in range(900)],
        [("tool.proposed", {"call_id": f"c{number}", "source": 1}) for number in range(700)],
        [
            (f"tool.{name}", {"call_id": f"c{number}", "source": 1})
            for number in range(400)
            for name in ("proposed", "completed")
        ],
        [("message.user", {"turn": "t1"})] * 600,
        [("message.user", [1]), ("message.user", b"\xff"), ("message.user", {"w": {"v": 2}}), ("message.user", {})],
    ],
    ids=["models", "open calls", "finished calls", "messages", "no objects"],
)
def test_bounds_are_kept_as_the_rules_keep_them(folder: Path, items: list[tuple[str, Any]]) -> None:
    check(folder, items)


def test_marks_thin_out_as_the_rules_thin_them(folder: Path) -> None:
    segment = Segment(folder, [("message.user", {})] * 1000, first=10_001)
    one, other = (State("s", 10_000, messages=Messages(4094 * 2, stride=2, marks=tuple(range(4094)))) for _ in "ab")
    for batch in segment.batches(Random(1)):
        fold(batch, other)
    assert_same(fold_batches(segment.batches(Random(2)), one), other)
    assert one.messages.stride == 4


@pytest.mark.parametrize("product", ["claude", "codex"])
def test_an_imported_history_folds_as_its_rules_say(tmp_path: Path, taken: list[int], product: str) -> None:
    with Store.open(tmp_path / "store") as store:
        paths = [path for path in sorted(CORPUS.glob(f"{product}*/**/*.jsonl")) if path.name != "session_index.jsonl"]
        results = [result for path in paths for result in import_path(store, str(path)) if result.session]
        events = 0
        for session in {result.session for result in results}:
            log = store.session(str(session)).log()
            expected = State("s")
            for batch in log.batches(Window()):
                fold(batch, expected)
            assert_same(fold_batches(log.batches(Window()), State("s")), expected)
            events += expected.events
            log.close()
    assert events > 100
    assert not NATIVE or taken[0] < events / 4


class _Untouchable:
    """Stands for a part of the state that a rule must leave alone."""


@pytest.mark.parametrize("type", sorted({*RULES, "acme.note", "turn.paused", "progress.updated"} - COMMON))
def test_another_rule_leaves_the_lent_part_alone(type: str) -> None:
    state = State("s")
    parts = {name: _Untouchable() for name in Hot.__struct_fields__}
    for name, part in parts.items():
        setattr(state, name, part)
    payloads: list[Any] = [{}, _FULL, []]
    for ordinal, payload in enumerate(payloads * 2, 1):
        state.phase = "open" if ordinal <= len(payloads) else "deleted"
        reduce(state, type, ordinal, 0, payload)
    assert all(getattr(state, name) is part for name, part in parts.items())


_FULL = {
    **dict.fromkeys(("turn", "grant", "input_id", "task", "plan", "parent", "title", "state"), "a"),
    "version": 1,
    "fork_ordinal": 1,
    "first": 1,
    "last": 2,
    "turns": 1,
    "tags": ["x"],
    "depends_on": ["b"],
}


def test_what_was_read_before_damage_is_in_the_state(folder: Path) -> None:
    segment = Segment(folder, Rollout().turns(300))

    def broken() -> Iterator[list[Event]]:
        yield next(iter(segment.batches(Random(5))))
        raise Damaged("torn")

    expected = fold(next(iter(segment.batches(Random(5)))), State("s"))
    state = State("s")
    with pytest.raises(Damaged):
        fold_batches(broken(), state)
    assert_same(state, expected)


def test_a_state_that_the_core_cannot_hold_is_folded_by_its_rules(folder: Path) -> None:
    check(folder, [("turn.started", {"turn": "\ud800"}), *[("message.user", {"turn": "\ud800"})] * 99])


def test_a_folder_without_a_state_refuses() -> None:
    folder = _core.Folder(frozenset())
    assert not folder.load(b"[]")
    with pytest.raises(ValueError, match="load one"):
        folder.hot()
    with pytest.raises(ValueError, match="load one"):
        folder.fold([], 0, (0, 0, 0, 0), (True, 0, "", False))


def test_events_of_a_type_that_has_moved_on_are_left_to_the_upcasters(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upcast(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "input": "asked in another way"}

    monkeypatch.setitem(VERSIONS, "turn.started", 2)
    monkeypatch.setitem(UPCASTERS, ("turn.started", 1), upcast)
    items: list[tuple[str, Any]] = [("session.created", {}), ("turn.started", {"turn": "t1", "input": "asked"})]
    state = check(folder, [*items, ("message.user", {"turn": "t1"})])
    assert state.turn is not None
    assert state.turn.input == "asked in another way"
