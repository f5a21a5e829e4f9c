"""The rules of the role firewall in real network namespaces: who reaches a machine, and who does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from strata.inventory.role_variables import role_host_variables, role_variables
from strata.roles import DIRECTORY, roles_of
from strata.site_file.loader import load_site

SITE = """
name: metal
domain: metal.example
access:
  ssh: [198.51.100.0/24]
  https: [198.51.100.0/24, 198.51.100.7/32]
  kubernetes_api: [198.51.100.0/24]
hosts:
  machines:
    - {name: control-1, address: 192.0.2.11, institution: lab, zone: here, roles: [kube_control_plane]}
    - {name: worker-1, address: 192.0.2.21, institution: lab, zone: here, roles: [kube_node]}
    - {name: services-1, address: 192.0.2.31, institution: lab, zone: here, roles: [nfs_server, load_balancer]}
  nfs: {exports: [{name: data, path: /srv/nfs/data, clients: [203.0.113.0/24]}]}
cluster: {name: metal, installer: kubeadm, datastore: etcd, pod_network: 10.244.0.0/16, service_network: 10.96.0.0/16}
"""
OPERATOR, CONTROL, WORKER, SERVICES, POD = "198.51.100.9", "192.0.2.11", "192.0.2.21", "192.0.2.31", "10.244.3.4"
EXPORT_CLIENT, STRANGER = "203.0.113.5", "192.0.2.99"
EVERYONE = (OPERATOR, CONTROL, WORKER, SERVICES, POD, EXPORT_CLIENT, STRANGER)
CLUSTER = {CONTROL, WORKER, POD}
NODE_PORT, BEHIND = 30443, 8443
KUBE_PROXY = f"""
table ip nat {{
  chain prerouting {{
    type nat hook prerouting priority dstnat
    tcp dport {NODE_PORT} redirect to :{BEHIND}
  }}
}}
"""
OPEN: dict[str, dict[int, set[str]]] = {
    WORKER: {22: {OPERATOR, *CLUSTER}, 10250: CLUSTER, 30443: {SERVICES, *CLUSTER}, BEHIND: CLUSTER, 9100: CLUSTER},
    CONTROL: {22: {OPERATOR, *CLUSTER}, 6443: {OPERATOR, *CLUSTER}, 2379: CLUSTER, 9100: CLUSTER},
    SERVICES: {
        22: {OPERATOR},
        443: {OPERATOR, CONTROL, WORKER, SERVICES},
        2049: {WORKER, EXPORT_CLIENT},
        9100: {CONTROL, WORKER},
    },
}
"""Machine to port to who reaches it."""
LISTEN = """
import json, selectors, socket, sys
selector = selectors.DefaultSelector()
for port in json.loads(sys.argv[1]):
    server = socket.create_server(("0.0.0.0", port), backlog=64)
    selector.register(server, selectors.EVENT_READ)
print("listening", flush=True)
while True:
    for key, _ in selector.select():
        key.fileobj.accept()[0].close()
"""
CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def reaches(probe):
    target, port, source = probe
    try:
        socket.create_connection((target, port), timeout=4, source_address=(source, 0)).close()
    except TimeoutError:
        return False
    return True

probes = json.loads(sys.argv[1])
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(reaches, probes))))
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def rules(file: Path, host: str) -> str:
    """The host's /etc/strata/firewall.nft."""
    site = load_site(file)
    machine = next(m for m in site.hosts.machines if str(m.address) == host)
    loader = jinja2.FileSystemLoader(DIRECTORY / "firewall" / "templates")
    template = jinja2.Environment(loader=loader, trim_blocks=True, autoescape=False).get_template("firewall.nft.j2")  # noqa: S701  # no HTML
    return template.render(
        ansible_managed="Ansible",
        group_names=list(roles_of(machine.roles)),
        **role_variables("firewall", site, None),
        **role_host_variables("firewall", site, machine.name),
    )


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Namespaces of a machine and of all who connect to it, on one network."""
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed; scripts/lab up installs it")
    here, there = (f"strata-test-{uuid.uuid4().hex[:6]}" for _ in range(2))
    try:
        for name in (here, there):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", here, "type", "veth", "peer", "name", "eth0", "netns", there)
        for name in (here, there):
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "dev", "eth0")
        yield here, there
    finally:
        for name in (here, there):
            subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.mark.parametrize("machine", OPEN)
def test_a_machine_accepts_what_its_roles_and_access_name(
    machine: str, namespaces: tuple[str, str], tmp_path: Path
) -> None:
    here, there = namespaces
    file = tmp_path / "site.yaml"
    file.write_text(SITE)
    ip("-n", here, "address", "add", f"{machine}/32", "dev", "eth0")
    others = [address for address in EVERYONE if address != machine]
    for address in others:
        ip("-n", there, "address", "add", f"{address}/32", "dev", "eth0")
    text = rules(file, machine)
    # the second time replaces the first
    for given in (text, KUBE_PROXY, text):
        subprocess.run(["ip", "netns", "exec", here, "nft", "--file", "-"], input=given, text=True, check=True)
    ports = sorted(OPEN[machine])
    listening = sorted({*ports, BEHIND} - {NODE_PORT})
    command = ["ip", "netns", "exec", here, sys.executable, "-c", LISTEN, json.dumps(listening)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "listening\n"
            probes = [(machine, port, source) for port in ports for source in others]
            command = ["ip", "netns", "exec", there, sys.executable, "-c", CONNECT, json.dumps(probes)]
            answers = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        finally:
            server.terminate()
    accepted: dict[int, set[str]] = {port: set() for port in ports}
    for (_, port, source), reached in zip(probes, answers, strict=True):
        if reached:
            accepted[port].add(source)
    assert accepted == {port: clients - {machine} for port, clients in OPEN[machine].items()}
