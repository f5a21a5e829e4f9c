#!/bin/bash
# In the virtual machine: what the roles do on a new volume, and what users then see. Prints NAME VALUE lines for the test.
exec > /dev/ttyS0 2>&1
PS4='+ '
set -x
library=/usr/local/lib/strata-nfs-server
limits=$library/folder-limits.json

result() { { set +x; } 2> /dev/null; echo "RESULT $*"; set -x; }
limit() { sed --in-place "s/\"limit\": *[0-9]*/\"limit\": $1/g" "$limits"; }
apply() { python3 -B $library/folder_limits.py "$limits"; }
blocks() { df --block-size=1K --output=size "$1" | tail -n 1 | tr -d ' '; }
# as a user without rights: MiB that could be written, and why no more
fill() {
  setpriv --reuid=1000 --regid=1000 --clear-groups python3 -c '
import errno, os, sys
written = 0
try:
    with open(sys.argv[1], "wb", buffering=0) as file:
        for _ in range(int(sys.argv[2])):
            written += file.write(bytes(1 << 20))
            os.fsync(file)
    print(written >> 20, "none")
except OSError as error:
    print(written >> 20, errno.errorcode[error.errno])
' "$1" "$2"
}

mkfs.ext4 -q -m 0 -O project,quota -E quotatype=prjquota /dev/vdb
mkfs.xfs -q /dev/vdc
# one of before, and the commands of the role's message
mkfs.ext4 -q -m 0 /dev/vdd
mkdir -p /srv/ext4 /srv/xfs /srv/old $library
mount -o prjquota /dev/vdd /srv/old
result old_refused $?
e2fsck -f -p /dev/vdd
tune2fs -O project,quota -Q prjquota /dev/vdd
mount -o prjquota /dev/vdb /srv/ext4
mount -o prjquota /dev/vdc /srv/xfs
mount -o prjquota /dev/vdd /srv/old

install -d -o 1000 -g 1000 -m 0700 /srv/{ext4,xfs,old}/homes
mkdir -p /srv/ext4/homes/before/sub
dd if=/dev/zero of=/srv/ext4/homes/before/sub/file bs=1M count=20 status=none
ln -s /etc/passwd /srv/ext4/homes/before/link
mkfifo /srv/ext4/homes/before/fifo
chown -hR 1000:1000 /srv/ext4/homes

apply && result applied
# an interrupted run: the folder has its project, its content has not
python3 -c 'import os; os.removexattr("/srv/ext4/homes/before", "trusted.strata.project")'
result again "$(apply)"
result repeated "$(apply)"
systemctl enable --now strata-folder-limits.path strata-folder-limits.timer
result before "$(blocks /srv/ext4/homes/before) $(fill /srv/ext4/homes/before/more 1)"

mkdir -p /srv/nfs-root/homes /mnt/homes /etc/exports.d
mount --bind /srv/ext4/homes /srv/nfs-root/homes
cat > /etc/exports.d/strata.exports << 'END'
/srv/nfs-root 127.0.0.0/8(ro,fsid=0,root_squash,sync,no_subtree_check,sec=sys,insecure)
/srv/nfs-root/homes 127.0.0.0/8(rw,root_squash,sync,no_subtree_check,sec=sys,anonuid=1000,anongid=1000,insecure)
END
systemctl start nfs-server
exportfs -ra
mount -t nfs4 -o vers=4.2 127.0.0.1:/homes /mnt/homes && result nfs mounted

for homes in /mnt/homes /srv/xfs/homes /srv/old/homes; do
  mkdir $homes/ada $homes/bob
  chown 1000:1000 $homes/ada $homes/bob
  # the path unit's service
  for _ in $(seq 100); do
    [ "$(blocks $homes/ada) $(blocks $homes/bob)" = "10240 10240" ] && break
    sleep 0.2
  done
  result $homes "$(blocks $homes/ada) $(fill $homes/ada/file 20) $(fill $homes/bob/file 5)"
done
setpriv --reuid=1000 --regid=1000 --clear-groups rm /mnt/homes/ada/file
result deleted "$(fill /mnt/homes/ada/file 5)"
result files "$(setpriv --reuid=1000 --regid=1000 --clear-groups python3 -c '
import itertools, sys
for count in itertools.count():
    try:
        open(f"/srv/xfs/homes/bob/{count}", "w").close()
    except OSError:
        print(count)
        sys.exit()
')"
# as `strata users remove` does, and the name given again
mkdir -m 0700 /srv/ext4/homes/.archive
mv -T /srv/ext4/homes/ada /srv/ext4/homes/.archive/ada-1 && mkdir /srv/ext4/homes/ada && chown 1000:1000 /srv/ext4/homes/ada
apply
result new_ada "$(blocks /mnt/homes/ada) $(df --block-size=1K --output=used /srv/ext4/homes/ada | tail -n 1)"
limit 30720
apply
result raised "$(blocks /mnt/homes/bob) $(blocks /srv/xfs/homes/bob) $(fill /mnt/homes/bob/more 20)"
limit 0
apply
result lifted "$(fill /mnt/homes/bob/more 40)"
result failed "$(systemctl is-failed strata-folder-limits.path strata-folder-limits.service strata-folder-limits.timer | tr '\n' ' ')"
journalctl --unit strata-folder-limits --no-pager --output cat | tail -n 40
result end
poweroff -f
