"""`cloud.deployment: kolla`: the files and commands of Kolla-Ansible, from site.yaml."""
