"""How far the losses of a log reach.

Owns: finding the newest ordinal that is lost, for whoever reads past damage without a state that knows it. Invariant: a
loss counts whether it shows as damage, was noted by a repair, or only the head tells of it. Must not know: what events
mean.
"""

from __future__ import annotations

from turnlog.errors import Damaged
from turnlog.log.log import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.log.log import Log


def newest_lost(log: Log, promised: int = 0) -> int:
    """Return the newest ordinal that is lost, 0 when none is; reads all events. `promised` is the last one that the log
    is known to have held. Raises StorageError, NewerFormat.

    >>> from turnlog import Store
    >>> newest_lost(Store.ephemeral().create().log())
    0
    """
    last = newest = 0
    noted = len(log.damage)
    for event in log.events(Window(on_damage="skip")):
        if event.ordinal > last + 1:
            newest = event.ordinal - 1
        last = event.ordinal
    ends = [error.lost[1] for error in log.damage[noted:] if error.lost is not None]
    del log.damage[noted:]
    try:
        head = log.head()[0]
    except Damaged:  # its newest segment cannot be read, which was noted
        head = 0
    head = max(head, promised)
    return max(newest, *ends, head if head > last else 0)
