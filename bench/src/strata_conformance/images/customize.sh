#!/bin/sh
# Runs inside the root filesystem that the images are made from: below /opt, what goes into images without a Debian.
set -eu

copy() { # ROOT FILE…: files, and the libraries of programs among them
    root=$1
    shift
    for file in "$@" $(ldd "$@" 2>/dev/null | grep -o '/[^ :]*' | sort -u); do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
}

for root in /opt/busybox /opt/nginx; do
    mkdir -p "$root/usr/bin" "$root/etc" "$root/root" "$root/var/log" "$root/proc" "$root/sys" "$root/dev"
    mkdir -m 1777 "$root/tmp"
    ln -s usr/bin "$root/bin"
    ln -s usr/bin "$root/sbin"
    copy "$root" /usr/bin/bash /usr/bin/busybox /etc/passwd /etc/group /etc/protocols /etc/services
    for applet in $(busybox --list); do
        [ "$applet" = busybox ] || ln -sf busybox "$root/usr/bin/$applet"
    done
    ln -sf bash "$root/usr/bin/sh"
done
copy /opt/nginx /usr/sbin/nginx /etc/nginx/mime.types /usr/share/nginx/html/index.html
mkdir -p /opt/nginx/var/lib/nginx /opt/nginx/var/log/nginx

# upstream's shell passes on variables with a dash in their names, as bash does; dash and Debian's BusyBox drop them
ln -sf bash /usr/bin/sh
# a test looks for this user and its second group
useradd --uid 1000 --user-group user-defined-in-image
groupadd --gid 50000 group-defined-in-image
usermod --append --groups group-defined-in-image user-defined-in-image
mkdir /uploads
rm -rf /var/lib/apt/lists/* /var/cache/apt/*
