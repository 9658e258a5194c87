#!/bin/sh
# Applies a series of patches to installed files, or nothing: sh apply.sh SITE_PACKAGES SERIES
# Every hunk has to fit exactly, and afterwards each patch, last first, has to fit in reverse.
set -eu
site=$1 series=$2
cd "$site"
for patch in "$series"/*.patch; do
    patch --strip=1 --fuzz=0 --forward --batch --quiet --no-backup-if-mismatch --input="$patch" \
        || { echo "$patch does not fit the installed release; it is made for the files of its folder's name" >&2; exit 1; }
done
undone=$(mktemp -d)
mkdir "$undone/tree"
for file in $(sed -n 's|^+++ b/||p' "$series"/*.patch | sort -u); do
    mkdir -p "$undone/tree/$(dirname "$file")"
    cp "$file" "$undone/tree/$file"
done
for patch in $(ls -r "$series"/*.patch); do
    patch --directory="$undone/tree" --strip=1 --fuzz=0 --reverse --batch --quiet --input="$patch" \
        || { echo "$patch is not in the installed files" >&2; exit 1; }
done
rm -r "$undone"
echo "applied: $(ls "$series" | wc -l) patches to $site"
