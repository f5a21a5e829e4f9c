"""Returns when a client consumes a queue of the message broker: wait_for_queue.py CONFIGURATION QUEUE SECONDS

The broker's URL is `transport_url` of the service's own configuration; an environment would show the password.
"""

from __future__ import annotations

import configparser
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import amqp


def consumers(url: str, queue: str) -> int:
    """Number of consumers of a queue; 0 where there is no such queue or broker yet."""
    parts = urlsplit(url)
    connection = amqp.Connection(
        host=f"{parts.hostname}:{parts.port}",
        userid=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
    try:
        with connection:
            return int(connection.channel().queue_declare(queue, passive=True).consumer_count)
    except (amqp.NotFound, OSError):
        return 0


def main() -> int:
    """Entry point."""
    configuration = configparser.ConfigParser(interpolation=None, strict=False)
    with Path(sys.argv[1]).open() as stream:
        configuration.read_file(stream)
    url = configuration["DEFAULT"]["transport_url"]
    queue, seconds = sys.argv[2], float(sys.argv[3])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if consumers(url, queue):
            return 0
        time.sleep(0.2)
    print(f"no client consumes the queue {queue} after {seconds:.0f} s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
