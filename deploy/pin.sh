#!/bin/sh
# Writes into .env, for each image that others make, the digest that its tag has now: every start and
# every build then gets the bytes that were tried. Call it again to take newer ones, and try those.
# Asks the registry, by `docker pull`. Where one answer is missing, .env stays as it was.
set -eu
cd "$(dirname "$0")/.."

value() { sed -n "s/^$1=//p" .env | tail -n 1; }
preset() { sed -n "s/.*\${$1:-\([^}]*\)}.*/\1/p" docker-compose.yml | head -n 1; }
[ -e .env ] || { echo "There is no .env yet: run deploy/prepare.sh. Nothing was pinned." >&2; exit 1; }

pins=
for name in POSTGRES_IMAGE SEAWEEDFS_IMAGE PYTHON_IMAGE; do
    image=$(value "$name")
    tag=${image%@*}
    tag=${tag:-$(preset "$name")}
    docker pull --quiet "$tag" >&2
    found=$(docker image inspect --format '{{index .RepoDigests 0}}' "$tag")
    case $found in
    *@sha256:*) pins="$pins$name=$tag@${found##*@}
" ;;
    *) echo "The registry names no digest of $tag. Nothing was pinned." >&2; exit 1 ;;
    esac
done

umask 077
{
    grep -v -e '^POSTGRES_IMAGE=' -e '^SEAWEEDFS_IMAGE=' -e '^PYTHON_IMAGE=' .env
    printf '%s' "$pins"
} >.env.new
mv .env.new .env
printf '%s' "$pins"
