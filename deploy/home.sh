#!/bin/sh
# Puts a home together from what is mounted, then runs a command. All replicas of one ledger share
# identity and keys; everything else a home holds is theirs alone, or in the store.
#
#   POINTSMAN_IDENTITY  a folder with identity.json, signing and content [/etc/pointsman/identity]
#   POINTSMAN_CONFIG    a folder with pointsman.yaml, models.yaml, …      [/etc/pointsman/config]
set -eu
umask 077

home=${POINTSMAN_HOME:?says where the home is put together}
identity=${POINTSMAN_IDENTITY:-/etc/pointsman/identity}
config=${POINTSMAN_CONFIG:-/etc/pointsman/config}

mkdir -p "$home/keys"
if [ -f "$identity/identity.json" ]; then
    # Copied, not linked: a mounted secret may be readable by a group, a key of a home may not.
    cat "$identity/identity.json" > "$home/identity.json"
    for key in signing content; do
        cat "$identity/$key" > "$home/keys/$key"
        chmod 0600 "$home/keys/$key"
    done
fi
if [ -d "$config" ]; then
    for file in "$config"/*.yaml; do
        [ -f "$file" ] && cat "$file" > "$home/${file##*/}"
    done
fi
exec "$@"
