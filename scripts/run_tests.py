#!/usr/bin/env python3
"""Runs suites of tests of a built tree and adds up what they say.

    run_tests.py --build DIR [quick|slow|all|nightly|SUITE ...]

`all` is quick and slow; groups that take longer must be named.

Prints what each suite prints, then a table, then `N passed, N failed`; exit code 1 if anything failed or nothing ran.
A suite that ends badly without naming a failure counts as one. Suites that keep one core busy run beside each other, as
many as there are cores; each is printed whole when it has ended.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Suite:
    name: str
    command: list
    report: pathlib.Path | None = None  # JUnit XML that the command writes; else its last line says the numbers
    quiet: bool = False  # shows only the output of failed tests, from the report
    alone: bool = False  # keeps all cores busy


def suites(build):
    """All suites by the group that they belong to."""
    divisi, python = str(build / "bin/divisi"), str(build / "test/venv/bin/python")
    lit, units = build / "test/lit.xml", build / "test/ctest.xml"
    plans, package = build / "test/plans.xml", build / "test/python.xml"
    # The tests of the Python package that need PyTorch, and the zoo, are skipped unless DIVISI_PYTHON names an interpreter that has it, and pytest.
    torch = os.environ.get("DIVISI_PYTHON", python)
    pytest = ["env", f"DIVISI={divisi}", torch, "-B", "-m", "pytest", "-rs", "-p", "no:cacheprovider"]
    answers = [python, str(SOURCE / "test/models/plans.py"), "--divisi", divisi]
    models = [python, str(SOURCE / "test/models/check.py"), "--divisi", divisi]
    pipelines = [python, str(SOURCE / "test/models/pipelines.py"), "--divisi", divisi]
    scaled = [str(SOURCE / f"test/models/{model}/model.onnx") for model in ("mlp", "lenet", "resnet_tiny")]
    graphs, texts = ([python, str(SOURCE / "test/fuzz" / name), "--divisi", divisi] for name in ("graphs.py", "texts.py"))
    return {
        "quick": [
            Suite("lit", [lit_of(build), "-sv", f"--xunit-xml-output={lit}", str(build / "test")], lit, alone=True),
            Suite(
                "units",
                ["ctest", "--test-dir", str(build), "-j2", "--timeout", "300", "--output-junit", str(units)],
                units,
                quiet=True,
                alone=True,
            ),
        ],
        "slow": [  # the longest first
            Suite("pipelines", [*pipelines, "--quick"]),
            Suite("known-answers", [*answers, "--quick"]),
            Suite("devices", [python, str(SOURCE / "test/models/devices.py"), "--divisi", divisi]),
            Suite("recorded", [python, str(SOURCE / "test/gpu/recorded.py"), "--build", str(build)]),
            Suite("gpu", [python, str(SOURCE / "test/gpu/emulated.py"), "--build", str(build)]),
            Suite("ptx-interpreted", [python, str(SOURCE / "test/gpu/ptx_interpreted.py"), "--build", str(build)]),
            Suite("auto", [python, str(SOURCE / "test/models/auto.py"), "--divisi", divisi]),
            Suite("attention", [python, str(SOURCE / "test/models/attention.py"), "--divisi", divisi]),
            Suite("remat", [python, str(SOURCE / "test/models/remat.py"), "--divisi", divisi]),
            Suite("unrolled", [python, str(SOURCE / "test/models/unrolled.py"), "--divisi", divisi]),
            Suite("models", models),
            Suite("replicas", [python, str(SOURCE / "test/models/replicas.py"), "--divisi", divisi, "--only", "mlp"]),
            Suite("servers", [python, str(SOURCE / "test/models/servers.py"), "--divisi", divisi, "--quick"]),
            Suite("lost-workers", [python, str(SOURCE / "test/models/lost_workers.py"), "--divisi", divisi, "--quick"]),
            Suite("optimizers", [python, str(SOURCE / "test/models/optimizers.py"), "--divisi", divisi, "--quick"]),
            Suite("noise", [python, str(SOURCE / "test/models/noise.py"), "--divisi", divisi]),
            Suite("losses", [python, str(SOURCE / "test/models/losses.py"), "--divisi", divisi]),
            Suite("batch-losses", [python, str(SOURCE / "test/models/batch_losses.py"), "--divisi", divisi]),
            Suite("predictions", [python, str(SOURCE / "test/models/predictions.py"), "--divisi", divisi]),
            Suite("averages", [python, str(SOURCE / "test/models/averages.py"), "--divisi", divisi]),
            Suite("metrics", [python, str(SOURCE / "test/models/metrics.py"), "--divisi", divisi]),
            Suite("models-dynamo", [*models, "--model", "model_dynamo.onnx"]),
            Suite("exporters", [python, str(SOURCE / "test/exporters/exports.py"), "--divisi", divisi]),
            Suite("traces", [python, str(SOURCE / "test/models/traces.py"), "--divisi", divisi]),
            Suite("asynchronous", [python, str(SOURCE / "test/models/asynchronous.py"), "--divisi", divisi, "--quick"]),
            Suite("ptx", [python, str(SOURCE / "test/gpu/ptx.py"), "--build", str(build), "--quick"]),
            Suite("cudnn", [python, str(SOURCE / "test/gpu/cudnn_plans.py"), "--build", str(build)]),
            Suite("ranges", [python, str(SOURCE / "test/gpu/ranges.py"), "--build", str(build)]),
            Suite("ranks", [python, str(SOURCE / "test/execute/ranks.py"), "--divisi", divisi]),
            Suite("launchers", [python, str(SOURCE / "test/execute/launchers.py"), "--divisi", divisi]),
            Suite("resume", [python, str(SOURCE / "test/execute/resume.py"), "--divisi", divisi]),
            Suite("elastic", [python, str(SOURCE / "test/execute/elastic.py"), "--divisi", divisi]),
            Suite("tokens", [python, str(SOURCE / "test/execute/tokens.py"), "--divisi", divisi]),
            Suite("columns", [python, str(SOURCE / "test/execute/columns.py"), "--divisi", divisi]),
            Suite("feed", [python, str(SOURCE / "test/execute/feed.py"), "--divisi", divisi]),
            Suite("images", [python, str(SOURCE / "test/execute/images.py"), "--divisi", divisi]),
            Suite("rate-finder", [python, str(SOURCE / "test/execute/rate_finder.py"), "--divisi", divisi]),
            Suite("curves", [python, str(SOURCE / "test/execute/curves.py"), "--divisi", divisi]),
            Suite("threads", [python, str(SOURCE / "test/execute/threads.py"), "--divisi", divisi]),
            Suite("memory-limits", [python, str(SOURCE / "test/execute/memory_limits.py"), "--divisi", divisi]),
            Suite("strangers", [python, str(SOURCE / "test/execute/strangers.py"), "--divisi", divisi]),
            Suite("statistics", [python, str(SOURCE / "test/execute/statistics.py"), "--divisi", divisi]),
            Suite("meaning", [python, str(SOURCE / "test/execute/meaning.py"), "--divisi", divisi]),
            Suite("onnx", [python, str(SOURCE / "test/onnx/node_tests.py"), "--divisi", divisi]),
            Suite("contrib", [python, str(SOURCE / "test/onnx/contrib.py"), "--divisi", divisi]),
            Suite("loops", [python, str(SOURCE / "test/onnx/loops.py"), "--divisi", divisi]),
            Suite("training-info", [python, str(SOURCE / "test/execute/training_info.py"), "--divisi", divisi]),
            Suite("random", [python, str(SOURCE / "test/execute/random_numbers.py"), "--divisi", divisi]),
            Suite("fuzz", [*graphs, "--count", "30"]),
            Suite("fuzz-texts", [*texts, "--count", "25"]),
            Suite("fuzz-flags", [python, str(SOURCE / "test/fuzz/flags.py"), "--divisi", divisi]),
            Suite("indices", [python, str(SOURCE / "test/execute/indices.py"), "--divisi", divisi, "--plans", "one"]),
            Suite("dimensions", [python, str(SOURCE / "test/execute/dimensions.py"), "--divisi", divisi]),
            Suite("kinks", [python, str(SOURCE / "test/execute/kinks.py"), "--divisi", divisi]),
            Suite("mutations", [python, str(SOURCE / "test/execute/mutations.py"), "--divisi", divisi, "--count", "500"]),
            Suite("python", [*pytest, "-c", str(SOURCE / "python/pyproject.toml"), f"--junitxml={package}", str(SOURCE / "python/tests")], package),
            Suite("digits", [python, str(SOURCE / "test/examples/digits.py"), "--divisi", divisi]),
            Suite("slow-network", [python, str(SOURCE / "test/examples/slow_network.py"), "--divisi", divisi], alone=True),
            Suite("commands", [python, str(SOURCE / "test/docs/commands.py"), "--divisi", divisi]),
            Suite("pages", [python, str(SOURCE / "test/tools/pages.py"), "--divisi", divisi]),
            Suite("language-server", [python, str(SOURCE / "test/tools/language_server.py"), "--build", str(build)]),
            Suite("pipedream", [python, str(SOURCE / "test/examples/pipedream.py"), "--divisi", divisi]),
            Suite("large-graphs", [python, str(SOURCE / "test/examples/large_graphs_test.py"), "--divisi", divisi]),
        ],
        "nightly": [
            Suite("stopped", [python, str(SOURCE / "test/execute/stopped.py"), "--divisi", divisi], alone=True),  # 24 ranks, named within seconds
            Suite("stopped-ends", [python, str(SOURCE / "test/execute/stopped_ends.py"), "--divisi", divisi], alone=True),
            Suite("elastic-all", [python, str(SOURCE / "test/execute/elastic.py"), "--divisi", divisi, "--all"], alone=True),
            Suite("asynchronous-all", [python, str(SOURCE / "test/models/asynchronous.py"), "--divisi", divisi]),
            Suite("optimizers-all", [python, str(SOURCE / "test/models/optimizers.py"), "--divisi", divisi]),
            Suite("ptx-all", [python, str(SOURCE / "test/gpu/ptx.py"), "--build", str(build)]),
            Suite("asynchronous-half", [python, str(SOURCE / "test/models/asynchronous_half.py"), "--divisi", divisi]),
            Suite("remat-all", [python, str(SOURCE / "test/models/remat.py"), "--divisi", divisi, "--all"]),
            Suite("loss-scaling", [python, str(SOURCE / "test/models/loss_scaling.py"), "--divisi", divisi]),
            Suite("lost-workers-all", [python, str(SOURCE / "test/models/lost_workers.py"), "--divisi", divisi, "--draws", "100"]),
            Suite("servers-all", [python, str(SOURCE / "test/models/servers.py"), "--divisi", divisi]),
            Suite("large-data", [python, str(SOURCE / "test/execute/large_data.py"), "--divisi", divisi]),
            Suite("network", [python, str(SOURCE / "test/execute/network.py"), "--divisi", divisi]),
            Suite("replicas-all", [python, str(SOURCE / "test/models/replicas.py"), "--divisi", divisi]),
            Suite(
                "plans",
                ["env", "DIVISI_PLAN_DRAWS=2000", "ctest", "--test-dir", str(build), "-j2", "--timeout", "3600"]
                + ["-R", "RandomPlans", "--output-junit", str(plans)],
                plans,
                quiet=True,
                alone=True,
            ),
            Suite("vgg-pipedream", [torch, str(SOURCE / "test/zoo/vgg_pipedream.py"), "--divisi", divisi], alone=True),  # 16 ranks
            Suite("zoo", [torch, str(SOURCE / "test/zoo/zoo.py"), "--divisi", divisi]),
            *([Suite("functions", [torch, str(SOURCE / "test/zoo/functions.py"), "--divisi", divisi])] if "DIVISI_PYTHON" in os.environ else []),
            Suite("zoo-published", [torch, str(SOURCE / "test/zoo/zoo.py"), "--divisi", divisi, "--size", "published", "--ways", "one device"], alone=True),  # memory
            Suite("zoo-rounding", [torch, str(SOURCE / "test/zoo/rounding.py"), "--divisi", divisi, "Inception-v3", "--microbatches", "2"]),
            Suite("site", ["bash", str(SOURCE / "scripts/site.sh")]),
            Suite("package", ["bash", str(SOURCE / "test/install/bare.sh"), str(build)]),  # as root
            Suite("threads-busy", [python, str(SOURCE / "test/execute/threads.py"), "--divisi", divisi, "--busy"], alone=True),
            Suite("devices-all", [python, str(SOURCE / "test/models/devices.py"), "--divisi", divisi, "--all"]),
            Suite("gpu-all", [python, str(SOURCE / "test/gpu/emulated.py"), "--build", str(build), "--all"]),
            Suite("ptx-interpreted-all", [python, str(SOURCE / "test/gpu/ptx_interpreted.py"), "--build", str(build), "--all"]),
            Suite("machine-code", [python, str(SOURCE / "test/gpu/machine_code.py"), "--divisi", divisi, "--limits"]),
            Suite("machine-code-models", [python, str(SOURCE / "test/gpu/machine_code.py"), "--divisi", divisi, "--limits", "--batch", "16384", "--rows", "5", *scaled]),
            Suite("never-worse", [*answers, "--only", "never_worse"]),  # some 300 searches
            Suite("same-for-all", [*answers, "--only", "of_all"]),
            Suite("memory-of-microbatches", [*answers, "--only", "memory_of_microbatches"]),
            Suite("pipelines-when-memory-is-short", [*answers, "--only", "pipelines_when_memory"]),
            Suite("parts-of-pipelines", [*answers, "--only", "parts_of_pipelines"]),
            Suite("round-trips", [*answers, "--only", "round_trips"]),
            Suite("cleaned", [python, str(SOURCE / "test/models/cleaned.py"), "--divisi", divisi]),
            Suite("recorded-all", [python, str(SOURCE / "test/gpu/recorded.py"), "--build", str(build), "--all"]),
            Suite("cleaned-all", [python, str(SOURCE / "test/models/cleaned.py"), "--divisi", divisi, "--all"]),
            Suite("pipelines-models", [*pipelines]),
            Suite("pipelines-all", [*pipelines, "--all"]),
            Suite("fuzz-texts-all", [*texts, "--count", "500", "--seed", "1"]),
            Suite("indices-all", [python, str(SOURCE / "test/execute/indices.py"), "--divisi", divisi]),
            Suite("tsan", [python, str(SOURCE / "test/runtime/races.py"), "--build", str(build / "tsan")]),
            Suite("fuzz-parsers", [python, str(SOURCE / "test/fuzz/parsers.py"), "--inputs", "20000", "--build", str(build / "fuzz")]),
            Suite("fuzz-units", [python, str(SOURCE / "test/fuzz/graphs_test.py")]),
            Suite("fuzz-all", [*graphs, "--count", "300", "--seed", "1000000"]),
            Suite("fuzz-flags-all", [python, str(SOURCE / "test/fuzz/flags.py"), "--divisi", divisi, "--draws", "500", "--seed", "1000"]),
            Suite("auto-draws", [python, str(SOURCE / "test/models/auto.py"), "--divisi", divisi, "--draws", "250", "--seed", "1000"]),
            Suite("pipelines-draws", [*pipelines, "--draws", "300", "--seed", "1"]),
        ],
    }


def lit_of(build):
    """LLVM's lit, as CMake found it."""
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^DIVISI_LIT:\w+=(.*)$", cache, re.MULTILINE)[1]


def read_junit(path):
    """(passed, failed, output of the tests that failed) of a report; what was skipped counts as neither."""
    passed, failed = 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed.append(f"FAIL {case.get('name')}\n{case.findtext('system-out', '').strip()}\n")
        elif case.find("skipped") is None and case.get("status", "run") == "run":
            passed += 1
    return passed, len(failed), "".join(failed)


def read_line(line):
    """(passed, failed) of `N passed, N failed`."""
    match = re.fullmatch(r"(\d+) passed, (\d+) failed", line.strip())
    return (int(match[1]), int(match[2])) if match else (0, 0)


PRINTING = threading.Lock()


def run(suite):
    """(name, passed, failed, seconds) of a suite."""
    start = time.monotonic()
    if suite.report:
        suite.report.unlink(missing_ok=True)
    try:
        done = subprocess.run(suite.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        code, output = done.returncode, done.stdout
    except OSError as error:
        code, output = 1, f"{error}\n"
    passed, failed, details = 0, 0, ""
    if suite.report and suite.report.is_file():
        passed, failed, details = read_junit(suite.report)
    elif not suite.report:
        lines = [line for line in output.splitlines() if line.strip()]
        passed, failed = read_line(lines[-1]) if lines else (0, 0)
    if failed == 0 and (code != 0 or passed == 0):
        failed = 1
    seconds = time.monotonic() - start
    with PRINTING:
        print(f"== {suite.name}\n{details if suite.quiet else output}", end="", flush=True)
    return suite.name, passed, failed, seconds


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", type=pathlib.Path, default=SOURCE / "build", help="the build folder")
    p.add_argument("wanted", nargs="*", default=["all"], help="quick, slow, all, nightly, or names of suites")
    o = p.parse_args()
    o.build = o.build.resolve()
    os.environ["DIVISI_CALIBRATION"] = "off"  # the same plans on every machine
    os.environ["DIVISI_PROFILE"] = str(o.build / "test/no-profile.json")  # without times measured on this machine
    # Of a sanitized build: LLVM and MPI keep memory until the end; LLVM's headers poison what its library, built without, then uses.
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0:allow_user_poisoning=0")
    groups = suites(o.build)
    known = {suite.name: suite for group in groups.values() for suite in group}
    chosen = {}
    for word in o.wanted:
        group = groups["quick"] + groups["slow"] if word == "all" else groups.get(word) or [known.get(word)]
        if group == [None]:
            sys.exit(f"no suite '{word}': quick, slow, all, nightly, {', '.join(known)}")
        chosen.update((suite.name, suite) for suite in group)
    rows = [run(suite) for suite in chosen.values() if suite.alone]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows += pool.map(run, [suite for suite in chosen.values() if not suite.alone])
    print(f"\n{'suite':<16}{'passed':>8}{'failed':>8}{'seconds':>9}")
    for name, passed, failed, seconds in rows:
        print(f"{name:<16}{passed:>8}{failed:>8}{seconds:>9.0f}")
    passed, failed = sum(row[1] for row in rows), sum(row[2] for row in rows)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
