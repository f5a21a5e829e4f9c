#!/bin/sh
# Runs a command as a user of the pool, at the schedd of the user's tenant: `condor-as TENANT.USER condor_submit -spool …`.
# For the access point, which has the pool's key; the command sees only a token of that user.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
identity=$1@$(condor_config_val UID_DOMAIN)
_CONDOR_STRATA_TENANT=${_CONDOR_STRATA_TENANT:-${1%%.*}}
export _CONDOR_STRATA_TENANT
shift
(umask 077 && condor_token_create -identity "$identity" -lifetime 3600 -authz READ -authz WRITE >"$directory/token")
_CONDOR_SEC_TOKEN_DIRECTORY=$directory \
    _CONDOR_SEC_TOKEN_SYSTEM_DIRECTORY=/nonexistent \
    _CONDOR_SEC_PASSWORD_DIRECTORY=/nonexistent \
    _CONDOR_SEC_TOKEN_POOL_SIGNING_KEY_FILE=/nonexistent \
    "$@"
