"""The lab's network agent: applies neutron's objects to packets.

It runs in a container of its own in the network namespace of the host, with the standard library only. neutron's
mechanism driver (lab/openstack) writes all objects into one file; podman's network plugins write which
interface belongs to which instance. From both the agent makes one nftables ruleset, replaced as a whole.
"""
