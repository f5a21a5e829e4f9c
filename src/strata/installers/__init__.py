"""What installs with the playbooks of others: Kolla-Ansible the cloud, Kubespray the cluster."""
