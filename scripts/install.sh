#!/usr/bin/env bash
# Installs what Divisi is built, used and tested with, from Debian 12's own packages. Does nothing if all of it is there.
set -euo pipefail

packages=(
  # to build
  g++ clang-22 cmake ninja-build ccache git
  # the compiler: LLVM and MLIR with their tools (tblgen, lit, FileCheck), and what LLVM's CMake files look for
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools zlib1g-dev libzstd-dev libffi-dev libxml2-dev libjemalloc-dev
  # descriptions of clusters
  libtomlplusplus-dev
  # the importer
  libonnx-dev libprotobuf-dev protobuf-compiler
  # the runtime that generated programs link
  libopenblas-openmp-dev libdnnl-dev libjpeg62-turbo-dev libpng-dev nlohmann-json3-dev libcli11-dev libopenmpi-dev openmpi-bin
  # the tests
  libgtest-dev python3-venv
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
