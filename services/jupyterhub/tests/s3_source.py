"""An S3 server that breaks the rules, each prefix in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from strata_bench.https_server import in_background

LISTS = {
    "parent": ["parent/../../escape"],
    "absolute": ["absolute//etc/passwd"],
    "other": ["secret/of-another-prefix"],
    "good": ["good/", "good/a", "good/b/c"],
    "many": [f"many/{number}" for number in range(10_001)],
    "conflict": ["conflict/a", "conflict/a/b"],
}
SIZES = {"large": 10**12, "liar": 1}
DOCUMENTS = {
    "entities": b'<!DOCTYPE x [<!ENTITY a "a"><!ENTITY b "&a;&a;">]><ListBucketResult>&b;</ListBucketResult>',
    "garbage": b"<ListBucketResult><Contents>",
    "long": b" " * (2**22 + 1),
}


def _page(keys: list[str], size: int, more: str = "") -> bytes:
    entries = "".join(f"<Contents><Key>{key}</Key><Size>{size}</Size></Contents>" for key in keys)
    if more:
        entries += f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>"
    return f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{entries}</ListBucketResult>'.encode()


class _Handler(BaseHTTPRequestHandler):
    requests: list[str]
    """Hosts and paths of all requests, with their Authorization."""

    def do_GET(self) -> None:
        self.requests.append(f"{self.path} {self.headers.get('Authorization', 'anonymous')}")
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        name = query.get("prefix", [url.path.removeprefix("/research/")])[0].partition("/")[0]
        if name == "moved":
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/stolen")  # type: ignore[attr-defined]
            self.end_headers()
            return
        if name == "denied":
            # as real servers, which name the key
            body = b"<Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>AKIDEXAMPLE</AWSAccessKeyId></Error>"
        elif "prefix" not in query:
            body = b"x" * 2_000_000 if name == "liar" else url.path.encode()
        elif name == "endless":
            body = _page([], 0, more="again")
        elif name in DOCUMENTS:
            body = DOCUMENTS[name]
        else:
            body = _page(LISTS.get(name, [f"{name}/file"] if name in SIZES else []), SIZES.get(name, 1))
        self.send_response(403 if name == "denied" else 200)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing."""


@contextmanager
def hostile_s3() -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the requests that it got."""
    requests: list[str] = []
    handler = type("Handler", (_Handler,), {"requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    with in_background(server):
        yield f"http://127.0.0.1:{server.server_port}", requests
