"""Prints a file with MACHINE replaced by the name that a calibration gives to this machine."""

import os
import re
import sys

name = re.search(r"^model name\s*:\s*(.*?)\s*$", open("/proc/cpuinfo").read(), re.MULTILINE)
print(open(sys.argv[1]).read().replace("MACHINE", f"{name[1] if name else 'processor'}, {len(os.sched_getaffinity(0))} cores"))
