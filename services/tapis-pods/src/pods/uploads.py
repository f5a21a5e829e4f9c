"""Bodies of multipart/form-data, read as they come: a file of gigabytes needs no memory and no room in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

FIELD = b"file"


class Malformed(Exception):
    """The body is none; the message gives the reason."""


class _Parts:
    """Collects what a parser finds of the part `file`."""

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.seen = self.complete = self._wanted = False
        self._name, self._value, self._disposition = b"", b"", b""

    def begin(self) -> None:
        self._wanted, self._disposition = False, b""

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name, self._value = b"", b""

    def headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._wanted = options.get(b"name") == FIELD and not self.seen
        self.seen = self.seen or self._wanted

    def data(self, data: bytes, start: int, end: int) -> None:
        if self._wanted:
            self.content.append(data[start:end])

    def end(self) -> None:
        self.complete = True


async def file_of(headers: Mapping[str, str], body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The content of the field `file`.

    Raises:
        Malformed: it is missing, or the body has no end.
    """
    kind, options = parse_options_header(headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Malformed("the body must be multipart/form-data with the field file")
    parts = _Parts()
    try:
        parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": parts.begin,
                "on_header_field": parts.header_name,
                "on_header_value": parts.header_value,
                "on_header_end": parts.header_end,
                "on_headers_finished": parts.headers_end,
                "on_part_data": parts.data,
                "on_end": parts.end,
            },
        )
        async for chunk in body:
            parser.write(chunk)
            if parts.content:
                yield b"".join(parts.content)
                parts.content.clear()
    except FormParserError as error:
        raise Malformed(f"the body is not multipart/form-data: {error}") from None
    if not parts.complete:
        raise Malformed("the body has no end")
    if not parts.seen:
        raise Malformed("the field file is missing")
