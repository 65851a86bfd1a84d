#!/bin/sh
# Runs once, when the postgres container makes its data directory: one account and one database for
# Dagster's own storage, one of each for trying the collectors out. Nothing logs in as the superuser
# afterwards.
set -eu
: "${DAGSTER_DATABASE_PASSWORD:?fill in deploy/postgres.env}"
: "${FILEJOBS_DATABASE_PASSWORD:?fill in deploy/postgres.env}"

# psql reads the passwords from the environment, so no list of processes shows them, and quotes them
# itself, so they may hold any character.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" <<'SQL'
\getenv dagster_password DAGSTER_DATABASE_PASSWORD
\getenv filejobs_password FILEJOBS_DATABASE_PASSWORD

CREATE ROLE dagster LOGIN PASSWORD :'dagster_password';
CREATE DATABASE dagster OWNER dagster;
REVOKE ALL ON DATABASE dagster FROM PUBLIC;

CREATE ROLE filejobs LOGIN PASSWORD :'filejobs_password';
CREATE DATABASE filejobs OWNER filejobs;
REVOKE ALL ON DATABASE filejobs FROM PUBLIC;
SQL
