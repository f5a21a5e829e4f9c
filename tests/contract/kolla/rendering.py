"""The real Kolla-Ansible renders the services' configuration of a site, with facts from site.yaml."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import mitogen  # type: ignore[import-untyped]  # it ships no types
import yaml

from strata.installers.kolla.commands import command_environment, command_line
from strata.installers.kolla.configuration import PASSWORDS, configuration_directory, write_configuration
from strata.installers.kolla.files import section
from strata.models.accelerator_kinds import EXAMPLE
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.toolchain.python_environment import Environment

HERE = Path(__file__).parent
CNAF = """deployment: kolla
  kolla:
    registry: registry.example.org
    network: 10.21.0.0/24
    controllers: [{name: ctl01, address: 10.21.0.11}]
    internal: {address: 10.21.0.10, name: internal.example.org}
    external: {address: 192.0.2.20, name: cloud.example.org}
    interfaces: {api: bond0, external: eno4}
    ceph: {cluster_id: 7b1b6d5e-6f0a-4c55-9a4b-3a51d5d4a4a1, monitors: [10.21.0.31, 10.21.0.32]}"""
CHOSEN = [f"0000:{bus}:00.0" for bus in ("18", "3b", "5e", "86", "af", "d8")]
UNUSED = "0000:d9:00.0"
CEPH_SECRETS = "\nsecrets:\n" + "".join(
    f"  - {{name: kolla_ceph_{user}_key, source: environment, variable: CEPH_{user.upper()}}}\n"
    for user in ("glance", "cinder")
)
NO_TOOLBOX = """from ansible.module_utils.basic import AnsibleModule

names = ("container_engine", "module_name", "module_args", "module_extra_vars", "user", "api_version", "timeout")
module = AnsibleModule({n: {"type": "raw"} for n in names}, supports_check_mode=True)
if module.params["module_name"] != "openstack.cloud.resources":
    module.fail_json(msg=f"rendering called {module.params['module_name']}")
module.exit_json(changed=False, resources=[])
"""
"""Kolla's module that runs others in a container; what rendering asks of it is which resources keystone has."""


def tacc() -> str:
    """TACC's site file with one controller, one CPU hypervisor and one with V100: a host of each group."""
    text = (REPOSITORY / "inventories" / "tacc" / "site.yaml").read_text()
    for host in ("ctl02", "ctl03", "c02", "gpu02", "gpu03"):
        text = re.sub(rf"^ +- {{name: {host}, .*\n", "", text, flags=re.MULTILINE)
    # what needs the cards of the other hypervisors
    text = re.sub(r"^ +- {name: cic-gpu0[13],.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^ +- {name: sgx3.*\n", "", text, flags=re.MULTILINE).replace("v100: 3}", "v100: 1}")


def cnaf() -> str:
    """CNAF's servers with all their kinds of cards, and a described one, as a cloud by Kolla-Ansible on Ceph."""
    text = (REPOSITORY / "inventories" / "cnaf" / "site.yaml").read_text()
    text = text.replace("deployment: existing\n  credentials: infn-cloud", CNAF)
    for number in (1, 2):
        text = text.replace(f"{{name: server-{number},", f"{{name: server-{number}, address: 10.21.0.2{number},")
    devices = f"pci_passthrough: {{addresses: {json.dumps(CHOSEN)}, unused: {json.dumps([UNUSED])}}}"
    text = text.replace("u50: 2, u250: 1}}\n", f"u50: 2, u250: 1}}, {devices}}}\n", 1)
    # pinned and with huge pages, for nova to read
    text = text.replace("vcpus: 128,", 'vcpus: 128, dedicated_cpus: "4-127",')
    text = text.replace("accelerators: {a100: 2}}", "accelerators: {a100: 2}, dedicated_cpus: true, huge_pages: 1 GiB}")
    # a card that is not built in
    text = text.replace("rtx5000: 5}}\n", "rtx5000: 5, a10: 1}}\n", 1)
    flavor = "    - {name: a10.1, vcpus: 4, memory: 8 GiB, disk: 20 GiB, accelerators: {a10: 1}}\n"
    text = text.replace("    - {name: alveo,", f"{flavor}    - {{name: alveo,", 1)
    return f"{text}{CEPH_SECRETS}{EXAMPLE}\n"


@dataclass
class Rendering:
    """A site's configuration directory, and the services' files that Kolla-Ansible renders from it."""

    context: SiteContext
    environment: Environment
    root: Path
    facts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.facts = self.root / "facts"
        self.tree = self.root / "tree" / "ansible"
        self.output = self.root / "output"
        template = self.package.parent / "etc_examples" / "kolla" / "passwords.yml"
        # kolla-genpwd takes seven RSA keys of 4096 bits
        known = {k: v or f"secret-{k}" for k, v in yaml.safe_load(template.read_text()).items()}
        known = {k: dict.fromkeys(v, f"key-{k}") if isinstance(v, dict) else v for k, v in known.items()}
        self.context.secrets.get(PASSWORDS, lambda: yaml.safe_dump(known))
        self.changed = write_configuration(self.context, self.environment)
        self._write_facts()
        self._write_tree()

    @property
    def package(self) -> Path:
        """The package's playbooks."""
        return self.environment.share / "kolla-ansible" / "ansible"

    def file(self, host: str, service: str, name: str) -> Path:
        """A rendered file."""
        return self.output / host / service / name

    def _write_tree(self) -> None:
        """The package's playbooks, with one module replaced."""
        (self.tree / "library").mkdir(parents=True)
        for entry in self.package.iterdir():
            if entry.suffix == ".yml":
                shutil.copy(entry, self.tree)
            elif entry.is_dir() and entry.name != "library":
                (self.tree / entry.name).symlink_to(entry)
        for entry in (self.package / "library").glob("*.py"):
            shutil.copy(entry, self.tree / "library")
        (self.tree / "library" / "kolla_toolbox.py").write_text(NO_TOOLBOX)

    def _write_facts(self) -> None:
        cloud, kolla = section(self.context.site)
        addresses = {c.name: str(c.address) for c in kolla.controllers}
        addresses |= {h.name: str(h.address) for h in cloud.hypervisors}
        names = kolla.interfaces
        self.facts.mkdir(parents=True)
        for name, address in {**addresses, "localhost": "10.0.0.2"}.items():
            api = {"device": names.api, "active": True, "type": "bonding", "ipv4": {"address": address, "prefix": "24"}}
            fact = {
                **dict.fromkeys(("hostname", "nodename", "fqdn"), name),
                **{"os_family": "Debian", "distribution": "Debian", "distribution_version": "13.1"},
                **{"distribution_major_version": "13", "distribution_release": "trixie", "architecture": "x86_64"},
                **{"machine": "x86_64", "system": "Linux", "kernel": "6.12.0", "service_mgr": "systemd"},
                **{"user_uid": os.getuid(), "user_gid": os.getgid(), "user_id": "root", "processor_vcpus": 32},
                **{"memtotal_mb": 196608, "python_version": "3.13.5", "python": {"version": {"major": 3, "minor": 13}}},
                **{"default_ipv4": {"address": address, "interface": names.api}, "all_ipv4_addresses": [address]},
                "interfaces": ["lo", names.api, names.external, *([names.public] if names.public else [])],
                names.api: api,
                names.external: {"device": names.external, "active": True, "type": "ether"},
            }
            text = json.dumps({f"ansible_{key}": value for key, value in fact.items()})
            (self.facts / name).write_text(text)

    def variables(self) -> dict[str, object]:
        """Extra variables: everything runs here, and each host has an output folder of its own."""
        return {
            "node_config_directory": f"{self.output}/{{{{ inventory_hostname }}}}",
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": str(self.environment.programs / "python"),
        }

    def process_environment(self) -> dict[str, str]:
        """Facts from files, no host is asked."""
        return command_environment(self.environment) | {
            "KOLLA_ANSIBLE_DATA_FILES_PATH": str(self.root / "tree"),
            "ANSIBLE_CACHE_PLUGIN": "site_facts",
            "ANSIBLE_CACHE_PLUGINS": str(HERE / "plugins"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.facts),
            "ANSIBLE_CACHE_PLUGIN_TIMEOUT": "0",
            "ANSIBLE_GATHERING": "smart",
            "ANSIBLE_FORKS": "2",
        }

    def genconfig(self, log: Path) -> dict[str, dict[str, int]]:
        """Runs `kolla-ansible genconfig`; returns Ansible's counts by host."""
        command = command_line("genconfig", self.context.paths, self.environment)
        command += ["--extra-vars", json.dumps(self.variables())]
        return self._run(command, log)

    def nova_configuration(self, log: Path) -> dict[str, dict[str, int]]:
        """Runs the tasks alone that write nova.conf, of the roles nova and nova-cell; returns the counts by host."""
        plays: list[dict[str, object]] = []
        # a playbook's own roles come first
        place = self.root / "nova"
        roles = place / "roles"
        for role, hosts in (("nova", "control"), ("nova-cell", "compute")):
            directory = roles / role
            (directory / "tasks").mkdir(parents=True, exist_ok=True)
            for part in ("defaults", "templates", "vars"):
                if (self.package / "roles" / role / part).is_dir() and not (directory / part).exists():
                    (directory / part).symlink_to(self.package / "roles" / role / part)
            tasks = yaml.safe_load((self.package / "roles" / role / "tasks" / "config.yml").read_text())
            chosen = [t for t in tasks if t["name"] in ("Ensuring config directories exist", "Copying over nova.conf")]
            assert len(chosen) == 2, f"{role}: {[t['name'] for t in tasks]}"
            (directory / "tasks" / "main.yml").write_text(yaml.safe_dump(chosen, sort_keys=False))
            plays.append({"name": role, "hosts": hosts, "gather_facts": False, "roles": [role]})
        for part in ("group_vars", "filter_plugins", "action_plugins", "module_utils", "library"):
            if not (place / part).exists():
                (place / part).symlink_to(self.package / part)
        playbook = place / "nova-conf.yml"
        playbook.write_text(yaml.safe_dump(plays, sort_keys=False))
        directory = configuration_directory(self.context.paths)
        command = [str(self.environment.programs / "ansible-playbook"), str(playbook)]
        command += ["--inventory", str(directory / "inventory"), "--extra-vars", json.dumps(self.variables())]
        for name in ("globals.yml", "passwords.yml"):
            command += ["--extra-vars", f"@{directory / name}"]
        command += ["--extra-vars", f"CONFIG_DIR={directory}"]
        return self._run(command, log)

    def _run(self, command: list[str], log: Path) -> dict[str, dict[str, int]]:
        """Runs it with mitogen, of the project's environment: a third of the time."""
        site_packages = Path(mitogen.__file__).parents[1]
        link = self.root / "mitogen"
        link.mkdir(exist_ok=True)
        for name in ("mitogen", "ansible_mitogen"):
            if not (link / name).exists():
                (link / name).symlink_to(site_packages / name)
        environment = self.process_environment() | {
            "PYTHONPATH": str(link),
            "ANSIBLE_STRATEGY": "mitogen_linear",
            "ANSIBLE_STRATEGY_PLUGINS": str(link / "ansible_mitogen" / "plugins" / "strategy"),
        }
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        log.write_text(done.stdout + done.stderr)
        stats: dict[str, dict[str, int]] = {}
        for line in done.stdout.splitlines():
            if line.startswith("{") and '"v2_playbook_on_stats"' in line:
                stats = json.loads(line)["stats"]
        assert done.returncode == 0, f"{log}: {_failures(done.stdout) or done.stdout[-2000:] + done.stderr[-2000:]}"
        assert stats, log
        return stats


def _failures(output: str) -> list[str]:
    return [line[:3000] for line in output.splitlines() if '"v2_runner_on_failed"' in line][:2]
