"""nova virt driver whose instances are systemd containers."""
