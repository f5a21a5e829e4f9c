#!/bin/sh
# Starts PostgreSQL on port 5432. The first start makes the data in $PGDATA, with one superuser and one database:
#   POSTGRES_PASSWORD  password of the user; needed at the first start only
#   POSTGRES_USER      default: postgres
#   POSTGRES_DB        default: the user's name
# Usage: start-postgresql [OPTION ...], options of `postgres`
set -eu
if [ ! -d "$PGDATA" ]; then
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "POSTGRES_PASSWORD is not set: put it into environment_variables, as the password of user $user" >&2
        exit 1
    fi
    # beside it, so that a start that is killed leaves no half of the data
    new=$PGDATA.new
    rm -rf "$new"
    printf '%s\n' "$POSTGRES_PASSWORD" |
        initdb --pgdata="$new" --username="$user" --pwfile=/dev/stdin --auth=scram-sha-256 --allow-group-access
    echo 'host all all all scram-sha-256' >>"$new/pg_hba.conf"
    if [ "$database" != postgres ]; then
        printf 'CREATE DATABASE "%s"\n' "$(printf %s "$database" | sed 's/"/""/g')" |
            postgres --single -D "$new" postgres >/dev/null
    fi
    # a volume belongs to a group, which snapshots are read as
    chgrp -R "$(stat --format=%g "$(dirname "$new")")" "$new"
    find "$new" -type d -exec chmod g+s {} +
    mv "$new" "$PGDATA"
fi
unset POSTGRES_PASSWORD
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
