#!/bin/sh
# Copies the daemons of an execution point and the libraries that they link, the C library included, so that they run in
# any Linux image at this path.
set -eu
target=$1
mkdir -p "$target/bin" "$target/etc" "$target/lib" "$target/libexec/condor" "$target/sbin"
for program in sbin/condor_master sbin/condor_procd sbin/condor_startd sbin/condor_starter \
    libexec/condor/condor_chirp libexec/condor/condor_gpu_discovery libexec/condor/condor_shared_port \
    libexec/condor/curl_plugin; do
    file=/usr/$program copy=$target/$program
    cp "$file" "$copy"
    ldd "$file" | awk '/=> \//{print $3} $1 ~ /^\//{print $1}' | xargs cp --dereference --no-clobber --target-directory="$target/lib"
    # an RPATH, unlike a RUNPATH, is also that of the libraries' own libraries
    patchelf --set-interpreter "$target/lib/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$target/lib" "$copy"
done
cat >"$target/etc/condor_config" <<END
RELEASE_DIR = $target
SBIN = $target/sbin
LIBEXEC = $target/libexec/condor
LOCAL_CONFIG_DIR = /etc/condor/config.d
END
# names of the daemons' user and of the jobs', which the image need not have
grep --extended-regexp '^(root|nobody|condor|slot1):' /etc/passwd >"$target/etc/passwd"
grep --extended-regexp '^(root|nogroup|condor|slot1):' /etc/group >"$target/etc/group"
