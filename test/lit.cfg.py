# Tests of IR (.mlir) and of the command line (.test). `lit build/test -v --filter NAME` runs a few.
import os

import lit.formats

config.name = "divisi"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["models", "exporters", "onnx", "benchmark", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.divisi_build, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.divisi_build, "bin"), config.llvm_tools, config.environment["PATH"]]
)
config.environment["DIVISI_CALIBRATION"] = "off"
config.environment["DIVISI_PROFILE"] = os.path.join(config.divisi_build, "test", "no-profile.json")
config.environment["OMP_NUM_THREADS"] = "2"
config.environment["OMP_WAIT_POLICY"] = "passive"  # tests run side by side
if not config.sanitized:
    config.available_features.add("hardened")
config.substitutions += [
    ("%divisi", os.path.join(config.divisi_build, "bin/divisi")),
    ("%fakegpu", os.path.join(config.divisi_build, "test/gpu/fake")),
    ("%models", os.path.join(config.test_source_root, "models")),
    ("%exporters", os.path.join(config.test_source_root, "exporters")),
    ("%examples", os.path.join(config.divisi_source, "examples")),
    ("%python", config.python),
    ("%fails", config.python + " " + os.path.join(config.test_source_root, "tools/Inputs/fails.py")),
]
