"""The facts in which a lab, a cloud and machines without a cloud differ, behind one interface."""

from strata.provider.base import ImageUpload, Provider, Subnet
from strata.provider.choice import provider_of
from strata.provider.deployment_host import Problem

__all__ = ["ImageUpload", "Problem", "Provider", "Subnet", "provider_of"]
