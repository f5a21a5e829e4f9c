#!/bin/sh
# Prepares /condor and runs a command. HTCondor wants keys and tokens as files of its own user that no group can read;
# volumes of Secrets are root's.
set -eu
umask 022
mkdir -p /condor/log /condor/spool /condor/execute /condor/lock /condor/run
(
    umask 077
    mkdir -p /condor/secrets/keys /condor/secrets/tokens
    for file in /secrets/keys/* /secrets/tokens/*; do
        [ ! -f "$file" ] || cat "$file" >"/condor/secrets/${file#/secrets/}"
    done
)
if [ "$(id -u)" = 0 ]; then
    # an execution point: its daemons drop to this user; jobs, as a third one, write to their own directory only
    chown condor:condor /condor/log /condor/spool /condor/execute /condor/lock /condor/run
    chmod 755 /condor
    chmod 700 /condor/secrets
    chmod 1777 /tmp
fi
# of the configuration, in seconds since 1970
_CONDOR_STRATA_STARTED=$(date +%s)
export _CONDOR_STRATA_STARTED
exec "$@"
