"""What of a running site is no longer as `up` left it."""

from strata.findings import Drift, DriftReport

__all__ = ["Drift", "DriftReport"]
