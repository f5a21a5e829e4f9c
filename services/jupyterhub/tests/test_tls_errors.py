"""What strata_tls changes in the notebook's Python: errors of one TLS connection stay with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.secrets.pki import create_authority, issue
from strata_services.jupyterhub.service import SERVICE

SOURCE = SERVICE.folder / "images/notebook/src"
READ = """
import _ssl, ctypes, socket, ssl, sys, threading
certificate, ca = sys.argv[1:3]
one, other = socket.socketpair()
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(certificate)
client = ssl.create_default_context(cafile=ca)
accepted = []
thread = threading.Thread(target=lambda: accepted.append(server.wrap_socket(one, server_side=True)))
thread.start()
connection = client.wrap_socket(other, server_hostname="scheduler")
thread.join()
connection.settimeout(0.01)

def fail_elsewhere():
    # what OpenSSL leaves behind when it cannot send an alert: ERR_LIB_SYS, EPIPE
    library = ctypes.PyDLL(_ssl.__file__)
    library.ERR_new()
    library.ERR_set_error(2, 32, None)

results = []
for operation in (lambda: connection.recv(1), lambda: connection.recv_into(bytearray(1), 1)):
    fail_elsewhere()
    try:
        operation()
    except OSError as error:
        results.append(type(error).__name__)
fail_elsewhere()
connection.sendall(b"text")
print(*results, accepted[0].recv(4).decode())
"""


@pytest.mark.parametrize("imported", [True, False])
def test_the_error_of_another_connection_ends_no_healthy_one(tmp_path: Path, *, imported: bool) -> None:
    """Without the module it does: once it does not, Python is repaired, and the module can go."""
    ca, ca_key = create_authority("test")
    issued = issue(ca, ca_key, "scheduler", ["scheduler"], [])
    (tmp_path / "ca.pem").write_text(ca)
    (tmp_path / "server.pem").write_text(issued.private_key + issued.certificate)
    # as Python starts in the image: a .pth file in a directory of packages
    start = f"import site; site.addsitedir({str(SOURCE)!r})\n" if imported else ""
    command = [sys.executable, "-I", "-c", start + READ, str(tmp_path / "server.pem"), str(tmp_path / "ca.pem")]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    assert output[-1] == "text"
    # nothing to read within the timeout
    assert (output[:-1] == ["TimeoutError", "TimeoutError"]) is imported
