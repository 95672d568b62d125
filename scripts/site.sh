#!/usr/bin/env bash
# Builds the pages of the repository as a site with MkDocs: scripts/site.sh [FOLDER]   (default: build/site)
# The pages link to each other and to sources as they do in the repository; a broken link, or another warning of MkDocs, is an error.
# Needs Python; MkDocs is installed into build/site-venv.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/site}")
mkdir -p build
[ -x build/site-venv/bin/mkdocs ] || {
  python3 -m venv build/site-venv
  build/site-venv/bin/pip install --quiet --disable-pip-version-check 'mkdocs==1.6.1'
}
pages=build/site-pages
rm -rf "$pages"
mkdir -p "$pages"
git ls-files -z | tar --null -T - -c | tar -x -C "$pages"
cat > build/mkdocs.yml <<YAML
site_name: Divisi
docs_dir: site-pages
site_dir: $out
use_directory_urls: false
theme: {name: readthedocs}
validation: {links: {not_found: warn, anchors: warn, unrecognized_links: warn}, nav: {omitted_files: ignore}}
nav:
  - Divisi: README.md
  - Pages: docs/README.md
  - Examples: examples/README.md
  - Changes: CHANGELOG.md
  - Contributing: CONTRIBUTING.md
YAML
build/site-venv/bin/mkdocs build --strict --config-file build/mkdocs.yml 2>&1 | { grep -v ^INFO || true; }
echo "$out/README.html"
echo "1 passed, 0 failed"
