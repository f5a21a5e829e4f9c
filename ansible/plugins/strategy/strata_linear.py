"""mitogen's linear strategy for a controller of few processors; strata.engine.ansible asks for it (decision 14)."""

from __future__ import annotations

import gc

import ansible_mitogen.affinity
import ansible_mitogen.loaders
import ansible_mitogen.strategy

# `ansible-doc -t strategy` reads these
DOCUMENTATION = """
name: strata_linear
short_description: Runs tasks as C(linear) does, with one interpreter per host that mitogen keeps
description: As C(mitogen_linear), but processes run on whichever processor is idle.
version_added: none
author: Strata
"""

COLLECTION_THRESHOLDS = (50_000, 50, 100)
"""New objects until the first generation is collected, collections until that of the next; Python: 700, 10, 10."""


def _suit_few_processors() -> None:
    # mitogen binds its processes to processors, a scheme "tested on an otherwise idle 16 thread machine" (affinity.py):
    # of two processors, one is for the connections alone, the other for Ansible, its workers for all hosts, and ssh.
    ansible_mitogen.affinity.policy = ansible_mitogen.affinity.Policy()
    # A worker is forked per task and host. A collection there looks at each object of Ansible's, so copies each page.
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


_suit_few_processors()
Base = ansible_mitogen.loaders.strategy_loader.get("linear", class_only=True)


class StrategyModule(ansible_mitogen.strategy.StrategyMixin, Base):  # type: ignore[misc]  # neither ships types
    """As mitogen's own plugin of this kind."""
