# complete.sh SCRIPT: what the script of `divisi completion bash` offers for some command lines, without --help.
source "$1"
offer() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _divisi
  echo "${COMP_WORDS[*]} => ${COMPREPLY[*]}" | sed 's/ --help.*//'
}
offer divisi comp
offer divisi compile --loss ""
offer divisi compile --devi
offer divisi compile --mesh data=2 --schedule z
offer divisi checkpoint ""
offer divisi checkpoint export --al
offer divisi run --launcher ""
offer divisi completion ""
offer divisi manu
