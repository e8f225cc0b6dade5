"""Documents in content: which provider's block means which bytes, text or address, and the name of one not shown.

Owns: reading the blocks document, input_file and file into one form. Invariants: pure; a block of any shape gives a
document or None, never an error; a file that only its provider holds is given to no other one. Must not know: events,
messages, what the blocks that are sent look like.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

ANTHROPIC, OPENAI = "anthropic", "openai"
PDF = "application/pdf"
_EXTENSIONS = {PDF: ".pdf"}


class Document(NamedTuple):
    """One document: `data` is base64; one of `data`, `text`, `url`, `file_id` is set.

    `more` holds members that only Anthropic's blocks have (context, citations); `holder` is the provider of `file_id`.
    """

    media_type: str = PDF
    data: str = ""
    text: str = ""
    url: str = ""
    file_id: str = ""
    title: str = ""
    holder: str = ""
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def file_name(self) -> str:
        """A name for it as a file, with the ending that its type needs.

        >>> Document(title="report").file_name
        'report.pdf'
        """
        ending = _EXTENSIONS.get(self.media_type, "")
        name = self.title or "document"
        return name if name.lower().endswith(ending) else name + ending

    @property
    def data_url(self) -> str:
        """Its bytes as an address.

        >>> Document(data="JVBERi0=").data_url
        'data:application/pdf;base64,JVBERi0='
        """
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def as_text(self) -> str:
        """Its text, or a short text that names it.

        >>> Document(title="report", data="JVBERi0=").as_text
        '[document report: not shown]'
        """
        return self.text or not_shown(self.title)


def not_shown(title: str = "") -> str:
    """Return the text that stands for a document.

    >>> not_shown()
    '[document: not shown]'
    """
    return f"[document {title}: not shown]" if title else "[document: not shown]"


def document_of(block: Mapping[str, Any]) -> Document | None:
    """Return what a block of any provider shows, None where it shows nothing; text content is left to the caller.

    >>> document_of({"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0="})[:2]
    ('application/pdf', 'JVBERi0=')
    """
    if block.get("type") == "document":
        return _of_anthropic(block)
    inner = block.get("file") if block.get("type") == "file" else block
    return _of_openai(inner) if isinstance(inner, Mapping) else None


def title_of(block: Mapping[str, Any]) -> str:
    """Return the name that a block gives its document.

    >>> title_of({"type": "document", "title": "report"})
    'report'
    """
    inner = block.get("file")
    found = _text(block, "title") or _text(block, "filename")
    return found or (_text(inner, "filename") if isinstance(inner, Mapping) else "")


def _of_anthropic(block: Mapping[str, Any]) -> Document | None:
    source, title = block.get("source"), title_of(block)
    if not isinstance(source, Mapping):
        return None
    more: list[tuple[str, Any]] = []
    if _text(block, "context"):
        more.append(("context", block["context"]))
    citations = block.get("citations")
    if isinstance(citations, Mapping) and isinstance(citations.get("enabled"), bool):
        more.append(("citations", {"enabled": citations["enabled"]}))
    document = Document(title=title, more=tuple(more))
    kind, data = source.get("type"), source.get("data")
    if kind == "text":
        return document._replace(text=data) if isinstance(data, str) and data.strip() else None
    if kind == "url":
        return document._replace(url=source["url"]) if _text(source, "url") else None
    if kind == "file":
        given = _text(source, "file_id")
        return document._replace(file_id=given, holder=ANTHROPIC) if given else None
    return _with_bytes(document, data, _text(source, "media_type") or PDF)


def _of_openai(block: Mapping[str, Any]) -> Document | None:
    document = Document(title=title_of(block))
    given = block.get("file_data")
    if isinstance(given, str) and given.strip():
        head, comma, data = given.partition(";base64,")
        if comma and head.startswith("data:"):
            return _with_bytes(document, data, head[5:] or PDF)
        return _with_bytes(document, given, PDF)
    if isinstance(given, bytes):
        return _with_bytes(document, given, PDF)
    if _text(block, "file_url"):
        return document._replace(url=block["file_url"])
    if _text(block, "file_id"):
        return document._replace(file_id=block["file_id"], holder=OPENAI)
    return None


def _with_bytes(document: Document, data: object, media_type: str) -> Document | None:
    """Give a document its bytes: base64 text, or bytes; those of plain text are read."""
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode("ascii")
    if not isinstance(data, str) or not data.strip():
        return None
    if not media_type.startswith("text/"):
        return document._replace(data=data, media_type=media_type)
    try:
        text = base64.b64decode(data).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return document._replace(text=text) if text.strip() else None


def _text(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) and value.strip() else ""
