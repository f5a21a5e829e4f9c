"""Asks the real policies whether a member of a project may do something: policy_cases.py, questions on standard input.

Reads a JSON list of [service, policy], with a third item for networks of other projects; writes the list of answers,
true or false.
"""

from __future__ import annotations

import importlib
import json
import sys

from oslo_config import cfg
from oslo_policy import policy  # type: ignore[import-not-found]  # of OpenStack's own environment

RULES = {"nova": "nova.policies", "neutron": "neutron.conf.policies", "glance": "glance.policies"}
PROJECT = "11111111111111111111111111111111"
MEMBER = {"roles": ["member", "reader"], "project_id": PROJECT, "tenant_id": PROJECT, "user_id": "u", "is_admin": False}
OWNERS = {
    f"{parent}:{key}": PROJECT
    for parent in ("network", "security_group", "ext_parent")
    for key in ("project_id", "tenant_id")
}
FOREIGN = {key: "2" * 32 for key in OWNERS if key.startswith("network:")}
"""The same in a network that another project shares."""
TARGET = {"project_id": PROJECT, "tenant_id": PROJECT, "user_id": "u", **OWNERS}
"""An object of the member's own project, on a network or in a security group of that project."""


def enforcer(service: str) -> policy.Enforcer:
    """The service's policies as it ships them; the lab sets none of its own."""
    configuration = cfg.ConfigOpts()
    configuration([], project=service, default_config_files=[], default_config_dirs=[])
    made = policy.Enforcer(configuration)
    made.suppress_deprecation_warnings = True
    made.register_defaults(list(importlib.import_module(RULES[service]).list_rules()))
    return made


def main() -> None:
    """Entry point."""
    questions = json.load(sys.stdin)
    enforcers = {service: enforcer(service) for service in {service for service, *_ in questions}}
    for service, name, *_ in questions:
        assert name in enforcers[service].registered_rules, f"{service} has no policy {name}"
    answers = [
        bool(enforcers[service].enforce(name, TARGET | (FOREIGN if shared else {}), MEMBER))
        for service, name, *shared in questions
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
