#!/bin/sh
# Writes the hashed locks of both engine lines again, from their .in files.
set -eu
cd "$(dirname "$0")"
compile() {
    uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11 \
        --python-platform x86_64-manylinux_2_28 --custom-compile-command images/engine-cpu-base/lock.sh "$@"
}
for line in lines/*; do
    compile --overrides without-cuda.txt --no-emit-package torch "$line/requirements.in" -o "$line/requirements.lock"
    compile --no-deps "$line/torch.in" -o "$line/torch.lock"
    compile --no-deps "$line/vllm.in" -o "$line/vllm.lock"
done
compile build.in -o build.lock
