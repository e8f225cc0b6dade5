"""Goal: an artifact is stored once, whole or not at all, and found again by digest; damage is named.

Method: real folders; children that are killed or held to a file size; a put and a sweep side by side.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import subprocess
import sys
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from turnlog import _core, disk, names
from turnlog.artifacts import artifacts
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.artifacts.check import wrong_artifacts
from turnlog.artifacts.file import Recorder
from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, NoSpace, NotFound
from turnlog.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RANDOM = random.Random(5).randbytes(700_000)
TEXT = b"".join(b"line %d of a long output\n" % number for number in range(130_000))
CONTENTS = {
    "empty": b"",
    "byte": b"\x00",
    "short": b"hello",
    "text": TEXT,
    "random": RANDOM,
    "zstd": b"\x28\xb5\x2f\xfd",
}
BLOCK = _core.BLOCK_BYTES
DAY_S = 86_400


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def files(store: ArtifactStore) -> list[str]:
    """Return the path below `artifacts/` of every file."""
    root = os.path.join(store.path, names.ARTIFACTS)
    return sorted(
        os.path.relpath(os.path.join(folder, name), root) for folder, _, found in os.walk(root) for name in found
    )


def file_of(store: ArtifactStore, artifact: Reference) -> str:
    (path,) = store._files(artifact.digest)
    return path


def age(store: ArtifactStore, artifact: Reference, days: float) -> None:
    """Let an artifact have been put so many days ago."""
    path = file_of(store, artifact)
    then_s = os.stat(path).st_mtime - days * DAY_S
    os.utime(path, (then_s, then_s))


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("kind", ["bytes", "path", "stream"])
def test_what_is_put_is_read_back_and_is_named_after_its_digest(
    store: ArtifactStore, content: bytes, kind: str
) -> None:
    path = os.path.join(store.path, "source")
    with open(path, "wb") as file:
        file.write(content)
    sources: dict[str, bytes | str | io.BytesIO] = {"bytes": content, "path": path, "stream": io.BytesIO(content)}
    found = store.put(sources[kind], media_type="text/x", summary="s")
    assert found == Reference(hashlib.sha256(content).hexdigest(), len(content), media_type="text/x", summary="s")
    assert store.read(found) == store.read(found.digest) == store.open(found).read() == content
    assert store.verify(found) is None
    assert list(wrong_artifacts(store.path, full=True)) == []


def test_text_is_compressed_and_noise_and_small_things_are_not(store: ArtifactStore) -> None:
    assert os.path.getsize(file_of(store, store.put(TEXT))) < len(TEXT) / 4
    assert file_of(store, store.put(TEXT)).endswith(".zst")
    assert os.path.getsize(file_of(store, store.put(RANDOM))) == len(RANDOM)
    assert os.path.getsize(file_of(store, store.put(b"x" * 4000))) == 4000


def test_a_compressed_artifact_is_readable_by_any_zstd_program(store: ArtifactStore) -> None:
    import zstandard

    with open(file_of(store, store.put(TEXT)), "rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        assert reader.read() == TEXT


def test_noise_in_the_middle_of_text_is_kept_as_it_is(store: ArtifactStore) -> None:
    content = TEXT[:300_000] + RANDOM + TEXT
    assert store.read(store.put(io.BytesIO(content))) == content


@pytest.mark.parametrize("content", [TEXT, RANDOM], ids=["compressed", "plain"])
def test_any_range_is_that_range_of_the_content(store: ArtifactStore, content: bytes) -> None:
    found = store.put(content)
    pick = random.Random(7)
    places = [(0, 0), (0, 1), (len(content), 5), (len(content) + 9, 5), (BLOCK - 1, 2), (BLOCK, BLOCK), (5, 10**9)]
    places += [(pick.randrange(len(content)), pick.randrange(300_000)) for _ in range(30)]
    for start, length in places:
        assert store.read(found, start, length) == content[start : start + length]
        assert store.open(found, start, length).read() == content[start : start + length]
    stream = store.open(found, 1000, 5000)
    assert stream.seek(-10, os.SEEK_END) == 4990
    assert stream.read() == content[5990:6000]
    assert stream.seek(7) == 7
    assert stream.read(3) == content[1007:1010]


def test_a_range_of_a_compressed_artifact_reads_only_the_blocks_it_lies_in(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = store.put(TEXT)
    flip(file_of(store, found), 10)  # the first block: a read that touched it would fail
    assert store.read(found, 2_400_000, 100) == TEXT[2_400_000:2_400_100]
    with pytest.raises(Damaged):
        store.read(found, 0, 100)


def test_equal_content_is_stored_once_and_not_written_again(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.put(TEXT)
    other = ArtifactStore(store.path)
    inode = os.stat(file_of(store, first)).st_ino
    path = os.path.join(store.path, "source")
    with open(path, "wb") as file:
        file.write(TEXT)
    monkeypatch.setattr(Recorder, "write", lambda *_: pytest.fail("written again"))
    assert store.put(TEXT) == other.put(bytearray(TEXT)) == other.put(memoryview(TEXT)) == other.put(path) == first
    assert os.stat(file_of(store, first)).st_ino == inode


def test_a_stream_of_known_content_leaves_one_file(store: ArtifactStore) -> None:
    assert store.put(TEXT) == store.put(io.BytesIO(TEXT))
    assert len(files(store)) == 1


@pytest.mark.parametrize("content", [TEXT, RANDOM], ids=["compressed", "plain"])
def test_a_put_replaces_a_file_of_the_wrong_size(store: ArtifactStore, content: bytes) -> None:
    found = store.put(content)
    with open(file_of(store, found), "wb") as file:
        file.write(b"short")
    finding = store.verify(found)
    assert finding is not None
    assert finding.kind == "damaged"
    assert store.put(content) == found
    assert store.read(found) == content


def test_a_damaged_plain_file_gives_way_to_compressed_blocks(store: ArtifactStore) -> None:
    found = store.put(TEXT)
    os.unlink(file_of(store, found))
    with open(names.artifact_path(store.path, found.digest), "wb") as file:
        file.write(b"short")
    store.put(TEXT)
    assert file_of(store, found).endswith(".zst")
    assert store.read(found) == TEXT


def test_content_is_synced_before_it_has_its_name_and_the_name_before_put_returns(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for target, name in (("disk.sync_file", "sync"), ("disk.sync_directory", "sync folder"), ("os.rename", "rename")):
        monkeypatch.setattr(f"turnlog.artifacts.artifacts.{target}", _noted(steps, name, target))
    store.put(RANDOM)
    assert steps.index("sync") < steps.index("rename")
    assert steps[-2:] == ["rename", "sync folder"]
    steps.clear()
    ArtifactStore(store.path).put(RANDOM)  # another process may have died between rename and sync
    assert steps == ["sync", "sync folder"]


def _noted(steps: list[str], name: str, target: str) -> Callable[..., object]:
    module, _, function = target.partition(".")
    original: Callable[..., object] = getattr(getattr(artifacts, module), function)

    def call(*arguments: object) -> object:
        steps.append(name)
        return original(*arguments)

    return call


def test_memory_is_bounded_whatever_the_size(store: ArtifactStore) -> None:
    class Long(io.RawIOBase):
        left = 48 << 20

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1, /) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return b"abcdefg\n" * (size // 8)

    tracemalloc.start()
    try:
        found = store.put(Long())
        with store.open(found) as stream:
            while stream.read(1 << 20):
                pass
        assert store.verify(found) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.size == 48 << 20
    assert peak < 12 << 20


@pytest.mark.parametrize("offset", [3, 200, 20_000, -30])
@pytest.mark.parametrize("content", [TEXT, RANDOM], ids=["compressed", "plain"])
def test_a_flipped_bit_is_found_or_harmless(store: ArtifactStore, content: bytes, offset: int) -> None:
    found = store.put(content)
    path = file_of(store, found)
    flip(path, offset % os.path.getsize(path))
    finding = store.verify(found)
    if finding is None:  # one of two copies of the seek table
        assert content is TEXT
        assert store.read(found) == content
        return
    assert finding.kind == "damaged"
    assert found.digest in finding.detail
    assert [detail for _, detail in wrong_artifacts(store.path, full=True)] == [finding.detail]
    with pytest.raises(Damaged, match=found.digest) as caught:
        store.read(found)
    assert caught.value.store == store.path
    assert caught.value.next_commands() == [f"sessionctl verify --full --store {store.path}"]


def test_a_compressed_file_without_any_sound_magic_is_not_taken_for_content(store: ArtifactStore) -> None:
    found = store.put(TEXT)
    path = file_of(store, found)
    with open(path, "r+b") as file:
        file.write(bytes(os.path.getsize(path)))
    finding = store.verify(found)
    assert finding is not None
    assert finding.kind == "damaged"


def test_a_missing_artifact_is_a_finding_and_a_typed_error(store: ArtifactStore) -> None:
    missing = Reference("ab" * 32, 5)
    finding = store.verify(missing)
    assert finding is not None
    assert (finding.digest, finding.kind) == (missing.digest, "missing")
    with pytest.raises(ArtifactNotFound, match=missing.digest) as caught:
        store.open(missing)
    assert caught.value.exit_code == 10
    assert caught.value.next_commands()


def test_a_reference_with_another_size_is_damage(store: ArtifactStore) -> None:
    found = store.put(b"hello")
    with pytest.raises(Damaged, match="5 bytes of content, not 6"):
        store.read(Reference(found.digest, 6), 0, 1)


def test_what_is_no_source_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(InvalidInput, match="int"):
        store.put(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="binary"):
        store.put(io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="absent"):
        store.put(os.path.join(store.path, "absent"))
    with pytest.raises(InvalidInput):
        store.read("not a digest")
    with pytest.raises(InvalidInput):
        store.read("ab" * 32, -1)
    assert files(store) == []


def test_what_a_stream_raises_comes_through_and_leaves_nothing(store: ArtifactStore) -> None:
    class Broken(io.RawIOBase):
        calls = 0

        def read(self, size: int = -1, /) -> bytes:
            self.calls += 1
            if self.calls > 2:
                raise ConnectionResetError("gone")
            return bytes(size)

    with pytest.raises(ConnectionResetError):
        store.put(Broken())
    assert files(store) == []


KILLED = """
import os, sys
from turnlog.artifacts.artifacts import ArtifactStore
store = ArtifactStore(sys.argv[1])
for number in range(1000):
    reference = store.put(os.urandom(300_000) if number % 2 else b"%d " % number * 90_000)
    os.write(1, reference.digest.encode() + b"\\n")
"""


def test_a_kill_during_a_put_shows_no_half_artifact_and_loses_none_that_was_returned(tmp_path: Path) -> None:
    pick = random.Random(3)
    returned: list[str] = []
    store = ArtifactStore(tmp_path)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            returned += [child.stdout.readline().decode().strip() for _ in range(pick.randrange(1, 9))]
            os.kill(child.pid, signal.SIGKILL)
            returned += child.stdout.read().decode().split()
            child.wait()
    assert list(wrong_artifacts(store.path, full=True)) == []
    assert [finding for digest in returned if (finding := store.verify(digest))] == []


FULL = """
import resource, signal, sys
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.errors import NoSpace
store = ArtifactStore(sys.argv[1])
data = open("/dev/urandom", "rb").read(400_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.put(data)
except NoSpace as error:
    assert error.retryable and error.store == store.path, error
else:
    raise SystemExit("not refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.read(store.put(data)) == data
"""


def test_a_full_disk_is_a_typed_error_and_the_next_put_works(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(files(ArtifactStore(tmp_path))) == 1


def test_a_failed_sync_is_an_error_and_leaves_nothing(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "sync_file", fail)
    with pytest.raises(NoSpace):
        store.put(RANDOM)
    assert files(store) == []


def test_a_sweep_removes_only_what_is_old_and_not_referenced(store: ArtifactStore) -> None:
    kept, young, old = store.put(b"kept"), store.put(b"young"), store.put(TEXT)
    age(store, kept, 100)
    age(store, young, 13.9)
    age(store, old, 14.1)
    before = files(store)
    shown = store.sweep([kept.digest])
    assert (shown.digests, shown.kept, shown.young, shown.dry_run) == ([old.digest], 1, 1, True)
    assert files(store) == before
    done = store.sweep([kept.digest], dry_run=False)
    assert (done.digests, done.bytes) == (shown.digests, shown.bytes)
    assert store.read(kept) == b"kept"
    assert store.read(young) == b"young"
    with pytest.raises(ArtifactNotFound):
        store.read(old)


def test_a_put_of_known_content_begins_the_grace_period_anew(store: ArtifactStore) -> None:
    found = store.put(b"again")
    age(store, found, 100)
    store.put(b"again")
    assert store.sweep([], dry_run=False).digests == []


def test_a_sweep_leaves_foreign_files_and_takes_old_unfinished_ones(store: ArtifactStore) -> None:
    found = store.put(b"x")
    root = os.path.join(store.path, names.ARTIFACTS)
    for name in ("README", os.path.join(found.digest[:2], "notes"), "old.tmp", "new.tmp"):
        with open(os.path.join(root, name), "w", encoding="utf-8"):
            pass
        if name != "new.tmp":
            os.utime(os.path.join(root, name), (0, 0))
    swept = store.sweep([], grace_days=0, dry_run=False)
    assert (swept.unfinished, swept.digests) == (1, [found.digest])
    assert files(store) == sorted(["README", os.path.join(found.digest[:2], "notes"), "new.tmp"])


@pytest.mark.parametrize("references", [["nonsense"], ["AB" * 32], [""]])
def test_a_sweep_refuses_a_list_of_references_that_is_not_sound(store: ArtifactStore, references: list[str]) -> None:
    found = store.put(b"x")
    age(store, found, 100)
    with pytest.raises(InvalidInput, match="nothing was removed"):
        store.sweep(references, dry_run=False)
    with pytest.raises(InvalidInput):
        store.sweep([], grace_days=-1, dry_run=False)
    with pytest.raises(InvalidInput):
        store.sweep([], grace_days=float("nan"), dry_run=False)
    assert store.read(found) == b"x"


def test_puts_and_sweeps_side_by_side_never_lose_what_put_returned(store: ArtifactStore) -> None:
    lost: list[str] = []
    stop = threading.Event()

    def sweep_on() -> None:
        while not stop.is_set():
            store.sweep([], grace_days=1, dry_run=False)

    def put_on(own: ArtifactStore) -> None:
        for number in range(60):
            found = own.put(b"%d" % (number % 5))
            try:
                own.read(found)
                age(own, found, 2)
            except (ArtifactNotFound, FileNotFoundError):
                lost.append(found.digest)  # only the other thread's `age` may do this

    sweeper = threading.Thread(target=sweep_on)
    sweeper.start()
    put_on(ArtifactStore(store.path))
    stop.set()
    sweeper.join()
    assert lost == []


def test_two_processes_may_put_the_same_content(tmp_path: Path) -> None:
    code = (
        "import sys; from turnlog.artifacts.artifacts import ArtifactStore\n"
        "for n in range(40): ArtifactStore(sys.argv[1]).put(b'%d ' % n * 9000)"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    assert len(files(ArtifactStore(tmp_path))) == 40
    assert list(wrong_artifacts(str(tmp_path), full=True)) == []
