"""Versions of everything that decides what is read and written: for bug reports.

Owns: `sessionctl --version`. Must not know: stores.
"""

from __future__ import annotations

import sys


def show(*, as_json: bool) -> None:
    """Print the versions of turnlog, the record core, SQLite, zstd and Python."""
    import apsw
    import zstandard

    import turnlog
    from turnlog import _core
    from turnlog.cli.output import Output

    versions = {
        "turnlog": turnlog.__version__,
        "core": _core.IMPLEMENTATION,
        "contract": _core.CONTRACT,
        "sqlite": apsw.sqlite_lib_version(),
        "zstd": ".".join(str(part) for part in zstandard.ZSTD_VERSION),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
    }
    out = Output(json=as_json, color="never")
    if as_json:
        out.object("versions", versions)
        return
    out.line(f"sessionctl {versions['turnlog']}")
    out.line(f"core {versions['core']} (contract {versions['contract']})")
    out.line(f"SQLite {versions['sqlite']}, zstd {versions['zstd']}, Python {versions['python']}")
