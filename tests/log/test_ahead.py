"""Reading ahead: a second thread changes when batches are read, and nothing else."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.errors import Damaged
from turnlog.log.ahead import AHEAD_BATCHES, NEAR_BATCHES, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

LENGTHS: SearchStrategy[int] = st.integers(0, 3 * NEAR_BATCHES)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "turnlog-reading-ahead"]


@settings(deadline=None)
@given(LENGTHS)
def test_every_batch_comes_once_and_in_order(length: int) -> None:
    assert list(read_ahead(iter(range(length)))) == list(range(length))
    assert not readers()


@settings(deadline=None)
@given(LENGTHS)
def test_an_error_comes_after_the_batches_before_it(length: int) -> None:
    def broken() -> Iterator[int]:
        yield from range(length)
        raise Damaged("torn")

    seen: list[int] = []
    with pytest.raises(Damaged, match="torn"):
        seen.extend(read_ahead(broken()))  # extend keeps what came before the error
    assert seen == list(range(length))
    assert not readers()


def test_a_short_log_is_read_by_the_thread_that_asks() -> None:
    here = [threading.get_ident() for _ in range(NEAR_BATCHES)]
    made = (threading.get_ident() for _ in range(NEAR_BATCHES))
    assert list(read_ahead(made)) == here


def test_no_more_is_read_than_may_wait() -> None:
    numbers = count()
    batches = read_ahead(iter(lambda: next(numbers), None))
    for number in range(100):
        assert next(batches) == number
    batches.close()
    assert next(numbers) <= 100 + AHEAD_BATCHES
    assert not readers()


def test_whoever_leaves_early_leaves_no_thread() -> None:
    batches = read_ahead(iter(range(1000)))
    assert [next(batches) for _ in range(NEAR_BATCHES + 1)][-1] == NEAR_BATCHES
    assert readers()
    batches.close()
    assert not readers()


def test_where_no_thread_can_begin_the_batches_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(read_ahead(iter(range(20)))) == list(range(20))
