# The exec dump of a model under some flags, and that of its dumps of $LEVELS (planned): MODEL FOLDER FLAGS...
set -e
model=$1 folder=$2
shift 2
# All are sealed by a hash of the whole dump, and after dist messages name the first of several nodes that are reduced together.
bare() { sed -e 's/dump = "sha256:[0-9a-f]*"//' -e 's/label = "all_reduce of [^"]*"//' "$folder/$1.mlir" > "$folder/$1.bare"; }
divisi compile "$model" "$@" --emit exec -o "$folder/direct.mlir"
bare direct
for level in ${LEVELS:-planned}; do
  divisi compile "$model" "$@" --emit "$level" -o "$folder/$level.mlir"
  divisi compile "$folder/$level.mlir" --emit exec -o "$folder/onward.mlir"
  bare onward
  diff "$folder/direct.bare" "$folder/onward.bare"
done
