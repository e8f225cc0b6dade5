"""Goal: what was put aside comes back exactly, whatever the payload holds.

Method: properties over JSON values that hold long strings, base64, surrogates and keys that look like references.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog import _core
from turnlog.artifacts import offload
from turnlog.errors import Damaged, InvalidPayload
from turnlog.reference import BINARY, Reference, Stored

LIMIT = 12


class Blobs(dict[str, bytes]):
    """Artifacts in memory."""

    def put(self, source: bytes, /, *, media_type: str, summary: str | None) -> Reference:
        digest = hashlib.sha256(source).hexdigest()
        self[digest] = source
        return Reference(digest, len(source), media_type=media_type, summary=summary)

    def read(self, reference: Reference) -> bytes:
        return self[reference.digest]


DIGESTS = st.sampled_from(["0" * 64, "ab" * 32])
REFERENCES = st.builds(Reference, DIGESTS, st.integers(0, 9), summary=st.none() | st.text(max_size=5))
TEXTS = st.one_of(
    st.text(st.characters(), max_size=30),
    st.binary(max_size=40).map(lambda data: base64.b64encode(data).decode()),
    st.binary(min_size=20, max_size=40).map(lambda data: "data:image/png;base64," + base64.b64encode(data).decode()),
    st.sampled_from(
        ["data:;base64,QUJDREVGR0hJSktM", "data:text/plain,AAAAAAAAAAAAAAAA", "A" * 21, "QUJDREVGR0hJSktMQ1=="]
    ),
)
KEYS = st.one_of(
    st.text(max_size=4),
    st.sampled_from(["$artifact", "$$artifact", "$$$artifact", "artifact", "x$artifact", "$artifact$", "encoding"]),
    st.sampled_from(["media_type", "digest", "size"]),
)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS | DIGESTS
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)
PAYLOADS = st.recursive(
    LEAVES | st.binary(max_size=20) | REFERENCES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


def through_the_log(stored: Any) -> Any:
    """Return what a reader decodes of a stored form."""
    import json

    return json.loads(_core.canonical(stored))


@given(PAYLOADS, st.sampled_from([0, LIMIT, None]))
def test_what_is_resolved_is_what_was_offloaded(payload: Any, limit: int | None) -> None:
    blobs = Blobs()
    assert offload.resolve(offload.offload(payload, limit, put=blobs.put), blobs.read) == payload


@given(JSON, st.sampled_from([0, LIMIT, None]))
def test_a_stored_form_survives_the_log_to_the_byte(payload: Any, limit: int | None) -> None:
    blobs = Blobs()
    stored = through_the_log(offload.offload(payload, limit, put=blobs.put))
    assert _core.canonical(offload.resolve(stored, blobs.read)) == _core.canonical(payload)


@given(PAYLOADS)
def test_every_artifact_of_a_stored_form_is_found_in_it_and_no_other(payload: Any) -> None:
    blobs = Blobs()
    stored = through_the_log(offload.offload(payload, LIMIT, put=blobs.put))
    given_by_hand = {reference.digest for reference in references_in(payload)}
    assert {reference.digest for reference in offload.references(stored)} == set(blobs) | given_by_hand


def references_in(value: Any) -> list[Reference]:
    if isinstance(value, Reference):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [reference for item in inner for reference in references_in(item)]


@given(JSON)
def test_a_payload_without_long_strings_and_such_keys_is_returned_itself(payload: Any) -> None:
    stored = offload.offload(payload, 10**6, put=Blobs().put)
    has_such_keys = re.search(r'"\$+artifact":', _core.canonical(payload).decode()) is not None
    assert (stored is not payload) == has_such_keys
    plain = {"role": "user", "content": [{"type": "text", "text": "x" * LIMIT}], "n": 1}
    assert offload.offload(plain, LIMIT, put=Blobs().put) is plain


def test_the_limit_counts_bytes_of_utf_8_and_includes_itself() -> None:
    blobs = Blobs()
    assert offload.offload("é" * 6, LIMIT, put=blobs.put) == "é" * 6
    assert offload.offload("é" * 6 + "!", LIMIT, put=blobs.put) != "é" * 6 + "!"
    assert list(blobs.values()) == [("é" * 6 + "!").encode()]


def test_an_image_is_put_aside_as_its_bytes_with_its_media_type() -> None:
    blobs = Blobs()
    image = bytes(range(256)) * 4
    text = base64.b64encode(image).decode()
    payload = {
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}},
        "openai": {"type": "image_url", "image_url": {"url": "data:image/png;base64," + text}},
        "raw": image,
    }
    stored = offload.offload(payload, 64, put=blobs.put)
    assert list(blobs.values()) == [image]
    kinds = [(reference.media_type, reference.size) for reference in offload.references(stored)]
    assert kinds == [("image/png", 1024), ("image/png", 1024), (BINARY, 1024)]
    assert offload.resolve(stored, blobs.read) == payload


def test_text_keeps_a_summary() -> None:
    (reference,) = offload.references(offload.offload("long text " * 20, LIMIT, put=Blobs().put))
    assert reference.summary is not None
    assert reference.summary.startswith("long text long")
    assert len(reference.summary) < 200


def test_a_string_at_the_deepest_level_stays_because_a_reference_would_not_fit() -> None:
    payload: Any = "x" * 100
    for _ in range(_core.DEPTH_MAX):
        payload = [payload]
    assert _core.canonical(offload.offload(payload, LIMIT, put=Blobs().put)) == _core.canonical(payload)
    with pytest.raises(InvalidPayload, match="128"):
        _core.canonical(offload.offload([payload], LIMIT, put=Blobs().put))


def test_a_stored_part_is_not_stored_again() -> None:
    part = {"$artifact": Reference("0" * 64, 1).as_payload(), "text": "x" * 100}
    assert offload.offload({"context": Stored(part)}, LIMIT, put=Blobs().put) == {"context": part}


def test_tuples_stay_tuples() -> None:
    blobs = Blobs()
    payload = ("x" * 100, [("a",)])
    assert offload.resolve(offload.offload(payload, LIMIT, put=blobs.put), blobs.read) == payload


@pytest.mark.parametrize(
    "foreign", [{"$artifact": 5}, {"$artifact": {"digest": "0" * 64}}, {"$artifact": {"digest": "x", "size": 1}}]
)
def test_what_only_looks_like_a_reference_is_shown_as_it_stands(foreign: dict[str, Any]) -> None:
    assert offload.resolve(foreign, Blobs().read) == foreign
    assert list(offload.references(foreign)) == []


@pytest.mark.parametrize("encoding", ["utf-8", "from the future"])
def test_content_that_is_not_what_the_event_says_is_damage(encoding: str) -> None:
    blobs = Blobs()
    reference = blobs.put(b"\xff\xfe", media_type=BINARY, summary=None)
    with pytest.raises(Damaged, match=reference.digest):
        offload.resolve({"$artifact": {**reference.as_payload(), "encoding": encoding}}, blobs.read)


def test_the_page_names_the_encodings_and_the_limit() -> None:
    text = (Path(__file__).parents[2] / "EVENTS.md").read_text(encoding="utf-8")
    section = " ".join(text.partition("\n## References to artifacts")[2].partition("\n## ")[0].split())
    named = section.partition("`encoding`, which")[2].partition(". Strings")[0]
    assert re.findall(r"`([\w-]+)`, ", named) == ["utf-8", "base64", "bytes"]
    assert f"more than {offload.LIMIT_BYTES:,} bytes" in section
    stored = offload.offload(["x" * 100, "data:;base64," + "QUJD" * 30, b"b"], LIMIT, put=Blobs().put)
    assert [item["$artifact"]["encoding"] for item in stored] == ["utf-8", "base64", "bytes"]
