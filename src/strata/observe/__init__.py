"""What of a site can be seen now: each layer is queried once, and has a reason if it does not respond."""

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
