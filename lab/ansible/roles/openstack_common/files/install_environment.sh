#!/bin/bash
# Installs OpenStack and the lab's drivers: install_environment.sh ENVIRONMENT SOURCES NAME
# ENVIRONMENT/.installed-NAME marks it as complete; an environment of the same lock is kept.
set -euo pipefail
environment=$1 sources=$2 name=$3
export UV_LINK_MODE=copy UV_NO_PROGRESS=1 UV_PYTHON_DOWNLOADS=never SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt

# sites of one machine share the environment, and may come up at the same time
exec 9>"$environment/.installing" # .lock is uv's own
flock 9
[[ ! -e $environment/.installed-$name ]] || exit 0
rm -f "$environment"/.installed-*
if ! cmp -s "$sources/requirements.lock" "$environment/requirements.lock"; then
    # not the directory itself, which may be a mount
    find "$environment" -mindepth 1 ! -name .installing -delete
    uv venv --quiet --python /usr/bin/python3.11 --prompt openstack --allow-existing "$environment"
    # services run as users that may not write bytecode
    uv pip install --quiet --python "$environment/bin/python" --compile-bytecode --require-hashes \
        --requirement "$sources/requirements.lock"
    # refuses, and reports it, when the code no longer has the lines that it changes
    patch --directory "$environment/lib/python3.11/site-packages" --strip 1 --forward --fuzz 0 --batch \
        <"$sources/oslo-messaging-lp2035113.patch"
    cp "$sources/requirements.lock" "$environment/requirements.lock"
fi
uv pip install --quiet --python "$environment/bin/python" --no-deps --no-build-isolation --reinstall "$sources/drivers"
cp "$sources/garbage_collection.pth" "$environment/lib/python3.11/site-packages/"
# uv would compile the whole environment again
"$environment/bin/python" -m compileall -q "$environment"/lib/python3.11/site-packages/{nova/virt/lab,strata_openstack_lab}
touch "$environment/.installed-$name"
