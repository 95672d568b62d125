#!/usr/bin/env python3
"""Plans of attention and convolutions by the installed cuDNN, for described GPUs that are not present.

    cudnn_plans.py --build DIR

cuDNN and NVRTC are looked for in LD_LIBRARY_PATH, CUDA_HOME and /usr/local/cuda*. Without them there is nothing to do. One
line per plan that fails, then `N passed, N failed`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys


def folders():
    """Folders that may contain libraries of CUDA."""
    yield from (pathlib.Path(word) for word in os.environ.get("LD_LIBRARY_PATH", "").split(":") if word)
    homes = [pathlib.Path(os.environ["CUDA_HOME"])] if "CUDA_HOME" in os.environ else []
    for home in homes + sorted(pathlib.Path("/usr/local").glob("cuda*")):
        yield from (home / "lib", home / "lib64")
    yield pathlib.Path("/usr/lib/x86_64-linux-gnu")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build.resolve()
    places = [next((f for f in folders() if any(f.glob(name))), None) for name in ("libcudnn.so.9", "libnvrtc.so.*")]
    if None in places:
        print("note: cuDNN 9 or NVRTC is not installed: no plans are made")
        print("1 passed, 0 failed")
        return 0
    path = ":".join(map(str, [build / "test/gpu/planning", *places]))
    environment = dict(os.environ, LD_LIBRARY_PATH=path)
    passed = failed = 0
    for program in ("attention_plans", "convolution_plans"):
        done = subprocess.run([build / "bin" / program], env=environment, stdout=subprocess.PIPE, text=True)
        *lines, last = done.stdout.splitlines() or [""]
        print("\n".join(lines), flush=True)
        count = re.fullmatch(r"(\d+) passed, (\d+) failed", last)
        passed, failed = passed + int(count[1] if count else 0), failed + int(count[2] if count else 1)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
