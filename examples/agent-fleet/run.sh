#!/bin/sh
# Runs the example in build/agent-fleet, or in the folder given. Needs `make env`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
home=${1:-$root/build/agent-fleet}
pointsman=${POINTSMAN:-$root/.venv/bin/pointsman}
python=${PYTHON:-$root/.venv/bin/python}
mkdir -p "$home"
cp "$here/home/"* "$home/"
"$pointsman" init --home "$home" > /dev/null

echo "== five agents"
"$pointsman" agents list --home "$home"
echo; echo "== a question: the scout hangs, the writer answers, the council judges"
"$pointsman" jobs run --request "$here/question.json" --home "$home"
echo; echo "== a write is asked for and not done"
"$pointsman" jobs run --request "$here/remember.json" --home "$home"
echo; echo "== three votes carry it"
"$python" "$here/council.py" "$home"
echo; echo "== the scout is trusted less now"
"$pointsman" agents show agent:scout --home "$home"
echo; echo "== the same again, from the record alone"
"$pointsman" jobs replay points --home "$home"
"$pointsman" jobs replay remember --home "$home"
"$pointsman" replay --all --home "$home"
"$pointsman" verify --home "$home"
