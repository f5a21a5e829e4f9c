"""Runs the cases that need nova's own code; test_drivers.py starts it with OpenStack's Python."""

from __future__ import annotations

import sys
import unittest

# puts the working tree's driver before the one that was installed last, so it comes before anything of nova
from . import nova_fixtures

MODULES = ("nova_instances", "nova_changes", "nova_resources")

if __name__ == "__main__":
    # nova registers options as it is imported, and refuses to once its configuration has been read
    cases = unittest.TestLoader().loadTestsFromNames([f"{__package__}.{name}" for name in MODULES])
    nova_fixtures.load_configuration()
    sys.exit(not unittest.TextTestRunner().run(cases).wasSuccessful())
