#!/bin/sh
# Succeeds while the schedds of all tenants in STRATA_TENANTS answer, as daemons and readers find them: by the collector.
set -u
domain=$(condor_config_val UID_DOMAIN)
silent=$(
    for tenant in $(echo "$STRATA_TENANTS" | tr , ' '); do
        condor_ping -quiet -name "$tenant@$domain" -type schedd READ >&2 || echo "$tenant" &
    done
    wait
)
[ -z "$silent" ] || { echo "no answer of the schedds of" "$silent" >&2; exit 1; }
