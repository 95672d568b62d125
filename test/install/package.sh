#!/usr/bin/env bash
# Installs the Debian package on a bare system, uses it as README.md says, and removes it: package.sh FILE.deb EXAMPLES, as root.
# EXAMPLES: the folder examples/digits. Ends with `N passed, N failed`.
set -uo pipefail
package=$(realpath "$1") digits=$(realpath "$2")
work=$(mktemp -d)
cd "$work" || exit 1
passed=0 failed=0
check() { # what, then a command
  local what=$1
  shift
  if "$@" >log.txt 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $what"
    tail -n 20 log.txt
  fi
}
says() { # a pattern, then a command that prints it
  local pattern=$1
  shift
  local text
  text=$("$@" 2>&1) && grep -Eq "$pattern" <<<"$text" && return 0
  echo "$text"
  return 1
}

# Everything but what apt keeps for itself, and what g++ and the libraries bring.
files() { dpkg -L divisi | while read -r file; do [ -d "$file" ] || echo "$file"; done; }

apt-get update -qq >/dev/null
check "install" apt-get install -y -qq --no-install-recommends "$package"
files >installed.txt
check "files" test "$(wc -l <installed.txt)" -ge 15
check "version" says '^divisi [0-9]+\.[0-9]+\.[0-9]+' divisi version
check "man pages" says 'divisi-compile' ls /usr/share/man/man1
check "completion" says '^compile$' bash -c 'source /usr/share/bash-completion/completions/divisi
  COMP_WORDS=(divisi comp) COMP_CWORD=1; _divisi; printf "%s\n" "${COMPREPLY[@]}"'
loss=(--loss cross_entropy --label label --optimizer sgd --lr 0.05 --momentum 0.9)
data=(--data image="$digits/x.npy" --data label="$digits/y.npy" --epochs 3)
check "compile" divisi compile "$digits/model.onnx" -o model "${loss[@]}"
check "train" ./model "${data[@]}" --eval image="$digits/xt.npy" --eval label="$digits/yt.npy" --save trained.onnx --log log.jsonl
check "accuracy above 0.9 after three epochs" says '"accuracy":0\.9' tail -n 1 log.jsonl
check "trained model" test -s trained.onnx
check "compile for two" divisi compile "$digits/model.onnx" -o model2 "${loss[@]}" --devices 2 --strategy data
check "train on two" divisi run --devices 2 ./model2 "${data[@]}" --log log2.jsonl
check "explain" says 'one device|data=2' divisi explain "$digits/model.onnx" "${loss[@]}" --cluster cpu:2
check "simulate" says 'utilization +72.7 %' divisi simulate --schedule 1f1b --stages 4 --microbatches 8
check "remove" apt-get purge -y -qq divisi
check "nothing is left" bash -c '! xargs -d "\n" ls -d <installed.txt 2>/dev/null | grep .'
rm -rf "$work"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
