"""Goal: whatever happens to the files of a session, no event is served changed, none is lost silently, and repair
leaves a session that verifies and can be written. Method: seeded injuries of nine kinds, one to four at once, on raw
and compacted segments, with the index as witness. Control: without a witness a cut of the last batch goes unseen.
"""

from __future__ import annotations

import os
import random
import shutil
from copy import copy
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from turnlog import Store, names
from turnlog.compact.compact import compact_session
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.damage import Victim


def flip(path: str, pick: random.Random) -> None:
    damage.flip(path, pick.randrange(os.path.getsize(path)))


def overwrite(path: str, pick: random.Random) -> None:
    size = os.path.getsize(path)
    damage.edit(path, pick.randrange(size), pick.randbytes(pick.randrange(1, min(4096, size + 1))))


def zero_sectors(path: str, pick: random.Random) -> None:
    damage.edit(path, pick.randrange(os.path.getsize(path)) // 512 * 512, bytes(512 * pick.randrange(1, 4)))


def shorten(path: str, pick: random.Random) -> None:
    damage.cut(path, pick.randrange(os.path.getsize(path)))


def lengthen(path: str, pick: random.Random) -> None:
    damage.edit(path, os.path.getsize(path), pick.choice([bytes(5000), pick.randbytes(700)]))


def misdirect(path: str, pick: random.Random) -> None:
    folder = os.path.dirname(path)
    other = damage.content(os.path.join(folder, pick.choice([name for name in os.listdir(folder) if "seg" in name])))
    start = pick.randrange(len(other) or 1) // 8 * 8
    at = pick.randrange(os.path.getsize(path)) // 8 * 8
    damage.edit(path, at, other[start : start + pick.randrange(8, 3000)])


def remove(path: str, pick: random.Random) -> None:
    os.unlink(path)


def rename(path: str, pick: random.Random) -> None:
    os.rename(path, path + pick.choice([".bak", ".seg", "x"]))


def swap(path: str, pick: random.Random) -> None:
    folder = os.path.dirname(path)
    other = os.path.join(folder, pick.choice([name for name in sorted(os.listdir(folder)) if "seg" in name]))
    one, two = damage.content(path), damage.content(other)
    for target, data in ((path, two), (other, one)):
        damage.cut(target, 0)
        damage.edit(target, 0, data)


INJURIES: list[Callable[[str, random.Random], None]] = [
    flip,
    overwrite,
    zero_sectors,
    shorten,
    lengthen,
    misdirect,
    remove,
    rename,
    swap,
]


def injure(victim: Victim, pick: random.Random, kinds: int) -> None:
    for _ in range(kinds):
        paths = [path for path in victim.segments() if os.path.getsize(path)]
        if paths:
            pick.choice(INJURIES)(pick.choice(paths), pick)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Victim, Victim]:
    """Return one session twice: with raw and with compacted segments."""
    folder = tmp_path_factory.mktemp("whole")
    raw = damage.Victim(folder / "raw")
    compacted = copy(raw)
    compacted.store = str(folder / "compacted")
    shutil.copytree(raw.store, compacted.store)
    compact_session(compacted.store, raw.session)
    return raw, compacted


def run(whole: tuple[Victim, Victim], folder: Path, seed: int) -> None:
    pick = random.Random(seed)
    source = whole[pick.random() < 0.2]
    victim = copy(source)
    victim.store = str(folder / "store")
    shutil.rmtree(victim.store, ignore_errors=True)
    shutil.copytree(source.store, victim.store)
    victim.folder = names.session_dir(victim.store, victim.session)
    witness = victim.witness()
    injure(victim, pick, pick.choice([1, 1, 1, 2, 3, 4]))

    check = check_session(victim.store, victim.session, witness=witness)
    read = victim.read("skip")
    assert read.items() <= victim.facts.items(), "nothing changed is served"
    assert read == victim.facts or not check.ok, "nothing is lost silently"

    plan = plan_session(victim.store, victim.session, witness=witness, accept_tail=True)
    assert plan.refusals == []
    repaired = plan.apply()
    assert repaired.ok, (plan.actions, repaired.findings)
    assert victim.read().items() <= victim.facts.items()
    assert plan_session(victim.store, victim.session, witness=witness).actions == []
    with Store.open(victim.store) as store:
        assert store.session(victim.session).append("a.b", {}).ordinal == damage.EVENTS + 1
    after = check_session(victim.store, victim.session, witness=witness, full=True)
    assert after.ok, after.findings


@pytest.mark.parametrize("seed", range(60))
def test_any_damage_is_told_and_repaired(whole: tuple[Victim, Victim], tmp_path: Path, seed: int) -> None:
    run(whole, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_much_damage_is_told_and_repaired(whole: tuple[Victim, Victim], tmp_path: Path) -> None:
    for seed in range(1000, 3000):
        run(whole, tmp_path, seed)


def test_without_a_witness_a_cut_of_the_last_batch_goes_unseen(whole: tuple[Victim, Victim], tmp_path: Path) -> None:
    victim = copy(whole[0])
    victim.store = str(tmp_path / "store")
    shutil.copytree(whole[0].store, victim.store)
    victim.folder = names.session_dir(victim.store, victim.session)
    damage.cut(victim.newest(), max(victim.held_by(victim.newest()).values()))
    assert check_session(victim.store, victim.session).ok
    assert not check_session(victim.store, victim.session, witness=victim.witness()).ok
