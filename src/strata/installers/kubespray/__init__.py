"""`cluster.installer: kubespray`: the pinned playbooks, and what they read, from site.yaml."""
