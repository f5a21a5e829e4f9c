"""Transfer nodes: downloads arrive, and the queue is closed to others."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from strata.models.site import Site
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs
from strata.verify.needs import needs, role

if TYPE_CHECKING:
    from testinfra.host import Host

NAME = ".strata-verify"
SECONDS = 60
"""How long a small file may wait behind others."""
# serves one file on the loopback interface, on any free port
SCRIPT = f"""
set -eu
directory=$(mktemp -d)
finish() {{
    kill "$server" || true
    data-transfer remove {NAME} >/dev/null || true
    $own rm -f "$file"
    rm -r "$directory"
}}
head -c 1000000 /dev/urandom >"$directory/data"
sum=$(sha256sum "$directory/data" | cut -d' ' -f1)
folder=$(sed -n 's/^dir=//p' /etc/aria2/aria2.conf)
file=$folder/{NAME}
# as aria2 and the folder's group: root is nobody on an export
own="setpriv --reuid=aria2 --regid=$(stat --format=%g "$folder") --clear-groups"
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$directory" >"$directory/log" 2>&1 &
server=$!
trap finish EXIT
port=$(timeout 10 sh -c "until sed -n 's/.* port \\([0-9]*\\) .*/\\1/p' '$directory/log' | grep .; do sleep 0.1; done")
echo "http://127.0.0.1:$port/data {NAME} $sum" | data-transfer add
timeout {SECONDS} sh -c 'until data-transfer list | grep "^\\(complete\\|error\\) .* {NAME}"; do sleep 0.2; done'
echo "$sum $file" | $own sha256sum --check --quiet
$own stat --format='mode %A' "$file"
"""


@needs(role("data_transfer"))
def test_downloads_arrive_at_transfer_nodes(
    site: Site, request: pytest.FixtureRequest, site_host: Callable[[str], Host]
) -> None:
    """Each transfer node downloads a file into its folder; the folder's group can read it then."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs
    for machine in hosts_with("data_transfer", site, outputs):
        output = site_host(machine.name).check_output(f"bash -c {shlex.quote(SCRIPT)}")
        assert "complete" in output, f"{machine.name}: {output}"
        assert "mode -rw-r-----" in output, f"{machine.name}: {output}"
