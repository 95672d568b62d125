#!/usr/bin/env python3
"""`divisi compile` for a GPU that is emulated: beside the program, PROGRAM.kernels.so has its kernels for this processor.

    emulated_divisi.py compile MODEL -o PROGRAM ...
    emulated_divisi.py run PROGRAM ...

The programs find it through the driver in fake/, if LD_LIBRARY_PATH leads there. DIVISI_BUILD is the build's folder.
"""

import os
import pathlib
import subprocess
import sys


def main():
    build = pathlib.Path(os.environ["DIVISI_BUILD"])
    words = [str(build / "bin/divisi"), *sys.argv[1:]]
    if sys.argv[1:2] != ["compile"]:
        os.execv(words[0], words)
    words += ["--target", "cuda", "--cuda-arch", "90"]
    code = subprocess.run(words).returncode
    if code != 0 or "-o" not in words:
        return code
    at = words.index("-o") + 1
    program = words[at]
    dump, kernels = program + ".exec.mlir", program + ".kernels"
    words[at] = dump
    subprocess.run([*words, "--emit", "exec"], check=True)
    subprocess.run([str(build / "bin/emulate_kernels"), dump, kernels + ".o"], check=True)
    threads = str(build / "lib/libdivisi_emulated_threads.a")
    subprocess.run(
        ["c++", "-shared", "-o", kernels + ".so", kernels + ".o", "-Wl,--whole-archive", threads]
        + ["-Wl,--no-whole-archive", "-lm"],
        check=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
