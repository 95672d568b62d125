#!/usr/bin/env bash
# Configures and builds Divisi into build/ (or $DIVISI_BUILD). More words go to ninja: scripts/build.sh -j1 divisi
set -euo pipefail
cd "$(dirname "$0")/.."
build=${DIVISI_BUILD:-build}
[ -e "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja
ninja -C "$build" "$@"
