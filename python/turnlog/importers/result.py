"""The result of importing one file. Owns: its fields and its JSON form. Must not know: how it came about."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Imported:
    """What became of one file; `status` is `imported`, `grown`, `unchanged` or `refused`."""

    __slots__ = ("appended_lines", "events", "findings", "lines", "path", "session", "status", "unknown")

    def __init__(self, path: str, session: str | None = None) -> None:
        """Start with nothing done."""
        self.path = path
        self.session = session
        self.lines = 0
        self.appended_lines = 0
        self.events = 0
        self.unknown: dict[str, int] = {}
        self.findings: list[dict[str, Any]] = []
        self.status = "refused"

    def refuse(self, code: str, detail: str, **more: Any) -> Imported:
        """Say why the file was not imported (further); return self; `more`: an `offset`, a `product`.

        >>> Imported("a.jsonl").refuse("unreadable", "no permission").status
        'refused'
        """
        self.findings.append({"code": code, "path": self.path, "detail": detail, **more})
        self.status = "refused"
        return self

    def as_json(self) -> dict[str, Any]:
        """Return the form printed by `--json`.

        >>> Imported("a.jsonl").as_json()["lines"]
        0
        """
        return {"type": "imported", **{name: getattr(self, name) for name in self.__slots__}}
