"""Keeps the error of one TLS connection from ending the others; strata_tls.pth imports it into each Python process.

OpenSSL keeps a queue of errors per thread, which must be empty before each operation. Python's `ssl` does not empty it
(CPython issue 148594): with OpenSSL 3.4 and later, an alert to a peer that has gone leaves `Broken pipe` there, and the
next reads of healthy connections raise it. A Dask scheduler loses its clients by that when workers start.
"""

from __future__ import annotations

import _ssl
import ctypes
import functools
import ssl
from collections.abc import Callable
from typing import Any

OPERATIONS = ("do_handshake", "read", "send", "unwrap", "write")
"""Of `ssl.SSLSocket`; its others call these. `ssl.SSLObject` makes no system calls."""
_clear = ctypes.PyDLL(_ssl.__file__).ERR_clear_error
"""Of the library that `ssl` uses."""
_clear.argtypes, _clear.restype = (), None


def _with_empty_queue(operation: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def run(*arguments: Any, **keywords: Any) -> Any:
        _clear()
        return operation(*arguments, **keywords)

    return run


for _name in OPERATIONS:
    setattr(ssl.SSLSocket, _name, _with_empty_queue(getattr(ssl.SSLSocket, _name)))
