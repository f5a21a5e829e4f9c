"""A substitute for Pulumi's Kubernetes plugin where that cannot be downloaded: Helm releases, by the real `helm`.

It speaks Pulumi's ResourceProvider protocol and keeps state as the official plugin does, so that either can continue
the other's stacks. Nothing else of Strata knows it; where the official plugin is, it is not used.
"""
