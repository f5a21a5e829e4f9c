"""What each layer would create, worked out offline."""

from strata.plan.build import plan
from strata.plan.model import Plan
from strata.plan.render import render

__all__ = ["Plan", "plan", "render"]
