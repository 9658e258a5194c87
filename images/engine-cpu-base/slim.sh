#!/bin/sh
# Takes out of site-packages what a CPU engine never opens: sh slim.sh SITE_PACKAGES
# Compilers and disassemblers for GPUs, code for GPUs, headers, static libraries, profilers, symbols for debuggers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
rm -rf torch/include torch/bin/protoc* torch/test torch/share \
    triton/backends/nvidia/bin triton/backends/nvidia/lib/cupti* triton/backends/nvidia/include triton/backends/amd/include \
    triton/instrumentation triton/_C/libproton.so \
    nvidia/cu13/include nvidia/cu13/bin
find nvidia -name '*.a' -delete
rm -f nvidia/cu13/lib/libnvperf* nvidia/cu13/lib/libpcsamplingutil* nvidia/cu13/lib/libcheckpoint*
for object in triton/_C/libtriton.so vllm/*.so; do
    strip --strip-unneeded "$object"
done
python3 "$here/device_code.py" torch/lib/*.so
