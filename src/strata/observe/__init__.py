"""What of a site can be seen now: each layer is asked once, and says why where it does not answer."""

from strata.observe.facts import CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, PodFacts, ServerFacts
from strata.observe.site import nothing_seen, observe

__all__ = [
    "CloudFacts",
    "ClusterFacts",
    "HostFacts",
    "Observation",
    "PlatformFacts",
    "PodFacts",
    "ServerFacts",
    "nothing_seen",
    "observe",
]
