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
# the daemons of an execution point drop to this user; the secrets stay root's, whom no job can become
[ "$(id -u)" != 0 ] || chown condor:condor /condor/log /condor/spool /condor/execute /condor/lock /condor/run
exec "$@"
