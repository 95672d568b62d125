#!/usr/bin/env bash
# From a model to a pipeline: measures what its layers take on this machine, finds replicated stages as PipeDream does, and compiles them.
#   run.sh MODEL.onnx DEVICES PROGRAM [FLAG of divisi compile ...]
# Writes PROGRAM and, beside it, PROGRAM.layers.json and PROGRAM.stages.json.
#   BANDWIDTH  between two devices (default 1GB/s)
#   SCHEDULE   pipedream (default: asynchronous), or a synchronous one; then add --microbatches N
#   DIVISI     the compiler (default: divisi)
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
model=$1 devices=$2 program=$3 divisi=${DIVISI:-divisi}
shift 3
microbatches=()
for ((i = 1; i <= $#; ++i)); do # of the pipeline, not of one device that is measured
  if [ "${!i}" = --microbatches ]; then
    j=$((i + 1))
    microbatches=(--microbatches "${!j:?--microbatches needs a number}")
    set -- "${@:1:i-1}" "${@:i+2}"
    break
  fi
done
"$divisi" profile "$model" --layers "$program.layers.json" "$@"
partition=("$divisi" plan --profile "$program.layers.json" --objective pipedream --devices "$devices" --bandwidth "${BANDWIDTH:-1GB/s}")
"${partition[@]}"
"${partition[@]}" --json > "$program.stages.json"
"$divisi" compile "$model" -o "$program" --stages "$program.stages.json" --schedule "${SCHEDULE:-pipedream}" "${microbatches[@]}" "$@"
