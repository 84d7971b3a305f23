#!/bin/sh
# Runs the example in build/content-pipeline, or in the folder given. Needs `make env`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
home=${1:-$root/build/content-pipeline}
pointsman=${POINTSMAN:-$root/.venv/bin/pointsman}
if [ ! -d "$home/decisions" ]; then
    mkdir -p "$home"
    cp -R "$here/home/." "$home/"
fi
"$pointsman" sensor run --once --home "$home"
"$pointsman" decision log --home "$home"
"$pointsman" decision distribution quality-gate --home "$home"
"$pointsman" replay --all --home "$home"
"$pointsman" verify --home "$home"
