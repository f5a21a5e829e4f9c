#!/bin/sh
# Runs in a new root filesystem: trusts the deployment host's CAs that Debian does not ship.
set -eu
if [ -s /tmp/host-ca.pem ]; then
    python3 - <<'PY'
import pathlib, re
blocks = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
own = {"".join(b.split()) for b in blocks.findall(pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_text())}
for number, block in enumerate(blocks.findall(pathlib.Path("/tmp/host-ca.pem").read_text())):
    if "".join(block.split()) not in own:
        pathlib.Path(f"/usr/local/share/ca-certificates/host-{number}.crt").write_text(block + "\n")
PY
    update-ca-certificates >/dev/null
fi
