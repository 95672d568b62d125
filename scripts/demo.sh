#!/usr/bin/env bash
# Installs what is missing, builds the compiler, compiles a small network and trains it on the handwritten digits.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh
scripts/build.sh divisi

build=${DIVISI_BUILD:-build} digits=examples/digits
mkdir -p "$build/demo"
set -x
"$build/bin/divisi" compile $digits/model.onnx -o "$build/demo/digits" \
  --loss cross_entropy --label label --optimizer sgd --lr 0.05 --momentum 0.9
"$build/demo/digits" --data image=$digits/x.npy --data label=$digits/y.npy --epochs 20 \
  --eval image=$digits/xt.npy --eval label=$digits/yt.npy --log "$build/demo/log.jsonl" --save "$build/demo/trained.onnx"
{ set +x; } 2>/dev/null

accuracy=$(tail -n 1 "$build/demo/log.jsonl" | sed -n 's/.*"accuracy":\([0-9.]*\).*/\1/p')
echo "held-out accuracy: ${accuracy:-none} (trained model: $build/demo/trained.onnx)"
awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy > 0.97) }'
