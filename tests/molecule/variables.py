"""Writes the roles' variables for molecule's containers: `variables.py DIRECTORY '{"services-12": "198.18.12.12"}'`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from strata.inventory.playbooks import host_variables
from strata.roles import DEBIAN_RELEASES
from strata.site.secrets import pki
from strata.site.secrets.htpasswd import htpasswd
from strata.toolchain import bin_directory

DOMAIN = "molecule.strata.test"
NETWORK = "198.18.12.0/24"
FRIENDS = "198.18.12.0/25"
"""The containers and the deployment host; the rest of the network is refused by the firewall."""

RPC_SECRET = "molecule-rpc-secret"
"""Of aria2, in containers that live for a test."""


def write(directory: Path, addresses: dict[str, str]) -> None:
    """One file for all hosts, one for each, a client certificate and the authority.

    Args:
        directory: where to; made, readable by its owner only.
        addresses: host name to address.
    """
    directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    authority, key = pki.create_authority("molecule")

    def certificate(name: str, dns_names: list[str], ip_addresses: list[str]) -> dict[str, str]:
        return asdict(pki.issue(authority, key, name, dns_names, ip_addresses))

    key_file = directory / "ssh_key"
    if not key_file.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "molecule", "-f", str(key_file)]
        subprocess.run(command, check=True)
    client = certificate("client", ["client"], [])
    (directory / "ca.pem").write_text(authority)
    (directory / "client.pem").write_text(client["certificate"] + client["private_key"])
    first = next(iter(addresses.values()))
    binary = bin_directory() / "kine"
    common = {
        "strata_site": "molecule",
        "strata_domain": DOMAIN,
        **host_variables(
            ("nfs_server", "postgresql", "kine", "registry", "load_balancer", "data_transfer", "firewall")
        ),
        "base_releases": list(DEBIAN_RELEASES),
        "base_ca": authority,
        "base_hosts": [{"name": n, "address": a} for n, a in addresses.items()],
        "base_service_names": [{"name": f"{n}.{DOMAIN}", "address": first} for n in ("registry", "hello")],
        "base_users": [{"name": "ada", "keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMolecule ada"], "sudo": True}],
        "nfs_server_exports": [
            {"name": "data", "id": 1, "path": "/srv/nfs/data", "folders": [{"name": "research", "group_id": 20001}]},
            {"name": "readonly", "id": 2, "path": "/srv/nfs/readonly", "access": "ro"},
            {"name": "elsewhere", "id": 3, "path": "/srv/nfs/elsewhere", "clients": ["192.0.2.0/24"]},
            {
                **{"name": "homes", "id": 4, "path": "/srv/nfs/volumes/homes", "size": "32M"},
                **{"owner": 1000, "group": 100, "mode": "0770"},
            },
        ],
        "nfs_server_client_networks": [NETWORK],
        "nfs_server_file_system_size": "64M",
        "nfs_server_grace_seconds": 2,
        "postgresql_client_networks": [NETWORK],
        # characters that URLs and SQL give a meaning to
        "postgresql_databases": [{"name": "ml_hub", "password": "a'b"}, {"name": "kine", "password": "p/w+%@:?#"}],
        "postgresql_settings": {"max_connections": 50, "shared_buffers": "32MB"},
        "kine_binary": str(binary) if binary.is_file() else "",
        "kine_database": {"host": "127.0.0.1", "name": "kine", "user": "kine", "password": "p/w+%@:?#"},
        "data_transfer_group_id": 20001,
        "data_transfer_rpc_secret": RPC_SECRET,
        "load_balancer_backends": list(addresses.values()),
        "firewall_accepts": {
            "all": [{"name": n, "protocol": "", "ports": "", "ipv4": [FRIENDS], "ipv6": []} for n in ("ssh", "hosts")]
        },
    }
    (directory / "all.yml").write_text(yaml.safe_dump(common))
    for name, address in addresses.items():
        own = {
            "postgresql_certificate": certificate("postgresql", [f"postgresql.{DOMAIN}"], [address, "127.0.0.1"]),
            "kine_certificate": certificate("kine", [f"kine.{DOMAIN}"], [address]),
            "registry_pull_users": htpasswd({"nodes": "pull"}),
            "registry_push_users": htpasswd({"operator": "push"}),
            "registry_certificate": certificate("registry", [f"registry.{DOMAIN}"], [address]),
        }
        if address != first:  # a folder of its own on one host, that of a tenant on the other's export here
            own |= {"data_transfer_source": f"{first}:/data", "data_transfer_subfolder": "research"}
        (directory / f"{name}.yml").write_text(yaml.safe_dump(own))


if __name__ == "__main__":
    write(Path(sys.argv[1]), json.loads(sys.argv[2]))
