"""Reading ahead: the next batches of a log are read and checked while one is worked on.

Owns: the thread that reads. Invariants: the batches, their order and the error that ends them are the iterator's own;
no more than AHEAD_BATCHES wait; when the generator is closed, the thread has ended. Must not know: what a batch is,
what is done with it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from queue import SimpleQueue

    Made = tuple["Batch | None", BaseException | None]

Batch = TypeVar("Batch")

AHEAD_BATCHES = 2

NEAR_BATCHES = 4
"""So many are read in place: a short log is folded before a thread would have begun."""


def read_ahead(batches: Iterator[Batch]) -> Generator[Batch, None, None]:
    """Yield what an iterator yields, and raise what it raises. Close it where it may be left before its end.

    >>> "".join(read_ahead(iter("in order")))
    'in order'
    """
    yield from islice(batches, NEAR_BATCHES)
    from queue import SimpleQueue
    from threading import Thread

    asked: SimpleQueue[bool] = SimpleQueue()
    ready: SimpleQueue[Made[Batch]] = SimpleQueue()
    thread = Thread(target=_read, args=(batches, asked, ready), name="turnlog-reading-ahead", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there are too many, or the interpreter is about to end
        yield from batches
        return
    try:
        for _ in range(AHEAD_BATCHES):
            asked.put(True)
        while True:
            batch, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            asked.put(True)
            yield cast("Batch", batch)
    finally:
        asked.put(False)
        thread.join()


def _read(batches: Iterator[Batch], asked: SimpleQueue[bool], ready: SimpleQueue[Made[Batch]]) -> None:
    """Make one batch each time that one is asked for, until there is none or none is wanted any more."""
    while asked.get():
        try:
            ready.put((next(batches), None))
        except BaseException as error:  # noqa: BLE001 - raised where the batches are used
            ready.put((None, error))
            return
