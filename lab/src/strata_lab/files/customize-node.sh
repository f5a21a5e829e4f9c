#!/bin/sh
# Runs inside each new root filesystem of a node, after customize.sh: what an instance of a cloud has.
set -eu

# cloud-init applies nova's config drive, and nothing that belongs to disks, boot loaders or other clouds.
cat >/etc/cloud/cloud.cfg.d/90-strata.cfg <<'CFG'
datasource_list: [ConfigDrive]
# neutron's addresses are on the interfaces before systemd starts
network: {config: disabled}
# Strata's hosts layer logs in as root, with the key pair
disable_root: false
ssh_genkeytypes: [ed25519]
# what the image has is UTF-8 already
locale: false
cloud_init_modules:
  [seed_random, bootcmd, write-files, set_hostname, update_hostname, ca-certs, rsyslog, users-groups, ssh]
cloud_config_modules: [ssh-import-id, locale, set-passwords, apt-configure, ntp, timezone, runcmd]
cloud_final_modules:
  [package-update-upgrade-install, write-files-deferred, scripts-vendor, scripts-per-once, scripts-per-boot,
   scripts-per-instance, scripts-user, keys-to-console, phone-home, final-message, power-state-change]
CFG
# Debian 13 has other units than Debian 12: one process behind them all, and the network's stage under a name of its own
for unit in cloud-init-main cloud-init-local cloud-init-network cloud-init cloud-config cloud-final; do
    [ ! -e "/usr/lib/systemd/system/$unit.service" ] && [ ! -e "/lib/systemd/system/$unit.service" ] ||
        systemctl enable --quiet "$unit.service"
done

# lxcfs shows the instance's memory and CPUs, its control group's limits, where the kernel shows the machine's.
cat >/usr/local/sbin/strata-limits-view <<'SCRIPT'
#!/bin/sh
# Shows an instance its own limits: strata-limits-view serve|start|stop
set -eu
root=/var/lib/lxcfs
files='proc/meminfo proc/swaps proc/cpuinfo sys/devices/system/cpu/online'
case $1 in
serve)
    # lxcfs reads the kernel's files, which must not be its own: it has a mount namespace where nothing lies over them,
    # and shares with this one only the directory where it appears.
    mount --bind "$root" "$root"
    mount --make-shared "$root"
    exec unshare --mount --propagation unchanged sh -c \
        "mount --make-rprivate /proc && mount --make-rprivate /sys && exec lxcfs $root"
    ;;
start)
    for file in $files; do
        tries=0
        until [ -e "$root/$file" ]; do
            tries=$((tries + 1))
            [ "$tries" -lt 200 ] || exit 1
            sleep 0.02
        done
        mount --bind "$root/$file" "/$file"
    done
    ;;
stop)
    for file in $files; do
        umount --lazy "/$file" 2>/dev/null || true
    done
    # what lxcfs mounted, and the directory itself
    umount --lazy "$root" 2>/dev/null || true
    umount --lazy "$root" 2>/dev/null || true
    ;;
esac
SCRIPT
chmod 755 /usr/local/sbin/strata-limits-view
mkdir -p /etc/systemd/system/lxcfs.service.d
cat >/etc/systemd/system/lxcfs.service.d/strata.conf <<'UNIT'
[Unit]
# Debian's unit is for hosts of containers; here it is the container that looks at itself
ConditionVirtualization=
DefaultDependencies=no
After=local-fs.target
Before=basic.target shutdown.target
Conflicts=shutdown.target

[Service]
ExecStartPre=/usr/local/sbin/strata-limits-view stop
ExecStart=
ExecStart=/usr/local/sbin/strata-limits-view serve
ExecStartPost=/usr/local/sbin/strata-limits-view start
ExecStopPost=
ExecStopPost=/usr/local/sbin/strata-limits-view stop
Restart=always
RestartSec=1

[Install]
WantedBy=basic.target
UNIT
systemctl reenable --quiet lxcfs.service

# Pods' NFS volumes: the host's kernel may have no NFS client, so mounts go through FUSE. It replaces nfs-common's helper, a
# dependency of nfs-ganesha, to which mount.nfs4 is a link already.
install -m 755 /tmp/mount.nfs /usr/sbin/mount.nfs
ln -sf mount.nfs /usr/sbin/mount.nfs4

# The serial console: nova's console log, and a login there.
systemctl unmask --quiet console-getty.service
systemctl enable --quiet console-getty.service
