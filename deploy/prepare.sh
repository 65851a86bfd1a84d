#!/bin/sh
# Writes what `docker compose up` needs and does not find: .env, with a new secret for each name that
# deploy/.env.example leaves empty, and settings for a trial. What is there already is not changed; an
# .env that lacks a value is named, before anything is made.
set -eu
cd "$(dirname "$0")/.."

if [ ! -e .env ]; then
    mask=$(umask)
    umask 077
    while IFS= read -r line; do
        case $line in
        '#'*) printf '%s\n' "$line" ;;
        *=) printf '%s%s\n' "$line" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <deploy/.env.example >.env.new
    umask "$mask"
    mv .env.new .env
    echo "Written: .env, with new secrets. Keep it; the database knows them from its first start on."
fi

if [ ! -e deploy/settings/filejobs.yaml ]; then
    cp deploy/settings/trial.yaml deploy/settings/filejobs.yaml
    # The containers' account reads it, whatever this shell's umask; it holds no secret.
    chmod a+r deploy/settings/*
    echo "Written: deploy/settings/filejobs.yaml, for a trial."
fi

value() { sed -n "s/^$1=//p" .env | tail -n 1; }
missing=
for name in POSTGRES_PASSWORD DAGSTER_DATABASE_PASSWORD FILEJOBS_DATABASE_PASSWORD ALLOW_LIVE; do
    [ -n "$(value "$name")" ] || missing="$missing $name"
done
# The keys of the storage: both, or neither where the machine has a role.
if [ -n "$(value S3_ACCESS_KEY_ID)" ] || [ -n "$(value S3_SECRET_ACCESS_KEY)" ]; then
    for name in S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY; do
        [ -n "$(value "$name")" ] || missing="$missing $name"
    done
fi
if [ -n "$missing" ]; then
    echo "Not complete: .env has no value for$missing. Nothing was made or started." >&2
    exit 1
fi
