#!/bin/sh
# Whether what the others will use is there: each account, by its password, in its own database.
# Over TCP: while the start script runs, the server answers on its socket alone. A start that broke
# off in the middle leaves a server without them; docs/deploy.md says how to get out.
set -eu
asks() {
    PGPASSWORD="$2" PGCONNECT_TIMEOUT=4 psql --no-psqlrc --quiet --no-password --output=/dev/null \
        --host=127.0.0.1 --username="$1" --dbname="$1" --command='SELECT 1'
}
asks dagster "$DAGSTER_DATABASE_PASSWORD"
asks filejobs "$FILEJOBS_DATABASE_PASSWORD"
