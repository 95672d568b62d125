# The exec dump of a model under some flags, and that of its planned dump: MODEL FOLDER FLAGS...
set -e
model=$1 folder=$2
shift 2
divisi compile "$model" "$@" --emit exec -o "$folder/direct.mlir"
divisi compile "$model" "$@" --emit planned -o "$folder/planned.mlir"
divisi compile "$folder/planned.mlir" --emit exec -o "$folder/onward.mlir"
# Both are sealed by a hash of the whole dump.
for dump in direct onward; do sed 's/dump = "sha256:[0-9a-f]*"//' "$folder/$dump.mlir" > "$folder/$dump.bare"; done
diff "$folder/direct.bare" "$folder/onward.bare"
