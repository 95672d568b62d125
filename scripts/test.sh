#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests but the nightly ones. The last line is `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh
scripts/build.sh all test-venv
exec python3 scripts/run_tests.py --build "${DIVISI_BUILD:-build}" "${@:-all}"
