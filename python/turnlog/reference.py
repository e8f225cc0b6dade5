"""A reference to an artifact, and the mark of a value that already has its stored form.

Owns: the key and the members by which an event names an artifact. Invariant:
`Reference.from_payload(reference.as_payload())` gives an equal reference. Must not know: files, stores, where in a
payload a reference stands.
"""

from __future__ import annotations

from turnlog import names
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BINARY = "application/octet-stream"
KEY = "$artifact"
"""The one member of the object by which a stored payload refers to an artifact."""


class Reference:
    """What an event keeps of an artifact.

    `digest` is the SHA-256 of the content as 64 hex digits, `size` its length in bytes. Immutable by convention.

    >>> sorted(Reference("0" * 64, 5, media_type="text/plain").as_payload().items())[1:]
    [('media_type', 'text/plain'), ('size', 5)]
    """

    __slots__ = ("digest", "media_type", "size", "summary")

    def __init__(self, digest: str, size: int, *, media_type: str = BINARY, summary: str | None = None) -> None:
        """Raises InvalidInput when digest or size is none."""
        if not isinstance(digest, str) or not names.is_digest(digest):
            raise InvalidInput(f"an artifact's digest is 64 lower-case hex digits, not {digest!r}")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidInput(f"the size of artifact {digest} is a count of bytes, not {size!r}")
        self.digest = digest
        self.size = size
        self.media_type = media_type
        self.summary = summary

    def as_payload(self) -> dict[str, Any]:
        """Return the members that an event stores; `summary` only when there is one.

        >>> Reference("0" * 64, 5, summary="a log").as_payload()["summary"]
        'a log'
        """
        members: dict[str, Any] = {"digest": self.digest, "size": self.size, "media_type": self.media_type}
        if self.summary is not None:
            members["summary"] = self.summary
        return members

    @classmethod
    def from_payload(cls, members: dict[str, Any]) -> Reference:
        """Read the members back; unknown ones are ignored. Raises InvalidInput when digest or size is missing.

        >>> Reference.from_payload({"digest": "0" * 64, "size": 5}).size
        5
        """
        return cls(
            members.get("digest", ""),
            members.get("size", -1),
            media_type=members.get("media_type", BINARY),
            summary=members.get("summary"),
        )

    def __eq__(self, other: object) -> bool:
        """Compare all four members."""
        return isinstance(other, Reference) and self._key() == other._key()

    def __hash__(self) -> int:
        """Agree with `==`."""
        return hash(self._key())

    def _key(self) -> tuple[str, int, str, str | None]:
        return self.digest, self.size, self.media_type, self.summary

    def __repr__(self) -> str:
        """Show the digest's beginning, the size and the media type."""
        return f"<Reference {self.digest[:12]} {self.size} B {self.media_type}>"


class Stored:
    """A part of a payload that has its stored form already: `offload` puts `value` in as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Keep the value."""
        self.value = value
