#!/bin/bash
# Makes the schemas of one service: prepare_schema.sh USER KEPT DATABASE[=SAME]… -- COMMAND…
# COMMAND, run as USER, makes or upgrades them. What it made of empty databases is kept as KEPT/DATABASE.sql, which belongs
# to the code of this release and to COMMAND: the next site of this machine loads it in the place of hundreds of migrations.
# DATABASE=SAME loads the schema of SAME, which COMMAND does not make by itself.
set -euo pipefail
user=$1 kept=$2
shift 2
databases=()
while [[ $1 != -- ]]; do
    databases+=("$1")
    shift
done
shift
loading=$STATE_DIRECTORY/schema.loading # a load was cut off: what is there is no data

run() { mariadb --batch --skip-column-names "$@"; }

empty() {
    local tables
    tables=$(run --execute "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '$1'")
    # no answer is not "empty"; in a condition bash does not end by itself
    [[ $tables =~ ^[0-9]+$ ]] || exit 1
    ((tables == 0))
}

all_empty=true all_kept=true
for database in "${databases[@]}"; do
    empty "${database%=*}" || all_empty=false
    [[ -s $kept/${database#*=}.sql ]] || all_kept=false
done

cut_off=false
[[ ! -e $loading ]] || cut_off=true
if $all_kept && { $all_empty || $cut_off; }; then
    touch "$loading"
    for database in "${databases[@]}"; do
        name=${database%=*}
        if $cut_off; then
            create=$(run --raw --execute "SHOW CREATE DATABASE \`$name\`" | cut --fields 2)
            run --execute "DROP DATABASE \`$name\`; $create"
        fi
        run "$name" <"$kept/${database#*=}.sql"
    done
    rm "$loading"
    exit 0
fi

runuser --user "$user" -- "$@"
if $all_empty; then
    mkdir --parents "$kept"
    for database in "${databases[@]}"; do
        [[ $database != *=* ]] || continue
        # sites of one machine may do this at the same time
        part=$(mktemp "$kept/.$database.XXXXXX")
        trap 'rm -f "$part"' EXIT
        mariadb-dump --no-tablespaces --skip-dump-date "$database" >"$part"
        mv "$part" "$kept/$database.sql"
    done
fi
