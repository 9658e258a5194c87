#!/bin/sh
# Writes the hashed locks of both engine lines again, from their .in files.
set -eu
cd "$(dirname "$0")"
for line in lines/*.in; do
    uv pip compile --quiet --generate-hashes --no-deps --no-emit-index-url --no-annotate --python-version 3.11 \
        --custom-compile-command images/engine-files/lock.sh "$line" -o "${line%.in}.lock"
done
