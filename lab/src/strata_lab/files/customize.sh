#!/bin/sh
# Runs inside each new root filesystem that boots systemd: what a container needs and what it must not start.
set -eu

cat >/etc/systemd/system/strata-ssh-keys.service <<'UNIT'
[Unit]
Description=Host keys of the SSH server, made at first boot
# which makes its own, where there is one
After=cloud-init.service cloud-init-network.service
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key

[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key

[Install]
WantedBy=multi-user.target
UNIT
rm -f /etc/ssh/ssh_host_*

# Baked packages must not start by themselves: the role that needs one starts it.
for link in /etc/systemd/system/*.wants/*; do
    [ -e "$link" ] || [ -L "$link" ] || continue
    case "${link##*/}" in
        ssh.service | dbus* | systemd-* | strata-* | remote-fs.target | machines.target) ;;
        *) rm -f "$link" ;;
    esac
done
systemctl enable --quiet ssh.service strata-ssh-keys.service

# What belongs to a machine with hardware and would fail or disrupt the host.
systemctl mask --quiet \
    systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udev-trigger.service \
    systemd-modules-load.service systemd-timesyncd.service systemd-logind.service systemd-binfmt.service \
    proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount dev-hugepages.mount \
    getty.target console-getty.service getty@tty1.service \
    apt-daily.timer apt-daily-upgrade.timer fstrim.timer e2scrub_all.timer dpkg-db-backup.timer

# Without a reverse lookup sshd answers at once; without the module cache pam needs no logind.
printf 'UseDNS no\nPermitRootLogin prohibit-password\nMaxStartups 100:30:200\n' >/etc/ssh/sshd_config.d/strata.conf
: >/etc/machine-id
