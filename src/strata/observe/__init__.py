"""What of a site can be seen now: each layer is queried once, and has a reason if it does not respond."""

from strata.observe.all_layers import nothing_seen, observe
from strata.observe.facts import CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, PodFacts, ServerFacts

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
