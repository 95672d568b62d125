#!/usr/bin/env python3
"""Holds the rules of the house: who may include whom, file sizes, leftovers, paths, generated files, READMEs, and what
the description of an operation says.

    lint.py [ROOT]

Looks at the files that git tracks or would track. One finding a line; exit code 1 if any is an error.
"""

import collections
import pathlib
import posixpath
import re
import subprocess
import sys

import op_docs

ABI = "runtime/include/divisi/abi.h"
LAYERS = ("dialects", "step", "passes", "codegen", "compiler", "tools", "runtime")
# By the longest prefix of a file's path: the prefixes of what it may include among our own files.
MAY_INCLUDE = {
    "dialects/": ("dialects/",),
    "dialects/Dist/": ("dialects/Dist/",),
    "step/": ("dialects/", "step/"),
    "passes/": ("dialects/", "step/", "passes/"),
    "codegen/": ("dialects/", "step/", "codegen/", ABI),
    "compiler/": ("dialects/", "step/", "passes/", "codegen/", "compiler/", ABI),
    "tools/": ("dialects/", "step/", "passes/", "codegen/", "compiler/", "tools/", "runtime/"),
    "runtime/": ("runtime/",),
}
FOREIGN_TO_RUNTIME = ("llvm/", "llvm-c/", "mlir/", "mlir-c/", "clang/")

CODE = (".c", ".cpp", ".cu", ".h", ".td", ".py", ".sh", ".cmake", ".mlir")
WARN_LINES, MOST_LINES = 600, 1000
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
PLACE = re.compile(rb"(?<![\w.$~}/-])/(?:home|work|root)(?:/[\w.-]|(?![\w/.-]))")
PLACE_IN_BINARY = re.compile(rb"/(?:home|work|root)/[\w.-]+/|site-packages/")
GENERATED = re.compile(
    r"(^|/)(build(-[^/]*)?|CMakeFiles|__pycache__|Testing)/|(^|/)(CMakeCache\.txt|compile_commands\.json|\.ninja_\w+)$"
    r"|\.(o|a|so|pyc|inc|ninja|ptx|cubin|s|ll|bc|log|jsonl|exe)$"
)

# What users read speaks the words of docs/glossary.md. The history in docs/decisions.md stays as it was written.
READ_BY_USERS = re.compile(r"^(README\.md|docs/(?!decisions).*\.md|examples/.*\.md|tools/.*\.cpp|compiler/Report/.*|runtime/main/Options\.cpp)$")
OTHER_WORDS = {
    r"comput\w+ again": "recomputed, rematerialization",
    r"cut up": "sharded, partitioned",
    r"grids? of devices": "device mesh",
    r"runs? empty": "drains",
    r"busy cells": "utilization",
    r"where little crosses": "cut with the fewest live bytes",
    r"certified": "proven; optimality gap",
    r"waited for\)": "exposed communication",
    r"for programs": "machine-readable",
    r"whole on every device": "replicated",
    r"grows until": "is padded until",
}

Finding = collections.namedtuple("Finding", "path line level message")


def files_of(root, *options):
    """Paths from git, relative to the root."""
    done = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", *options], capture_output=True, text=True, check=True
    )
    return sorted({f for f in done.stdout.split("\0") if f and (root / f).is_file()})


def text_of(root, path):
    """The text of a file, or None when it is binary."""
    raw = (root / path).read_bytes()
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def longest_prefix(path, table):
    """The longest key of the table that the path starts with, or None."""
    return max((k for k in table if path.startswith(k)), key=len, default=None)


def included_file(path, name, files):
    """Which of our files `#include "name"` in `path` means, though it may be generated. None: it is not ours."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    tries = [beside, name] + [f"{layer}/{between}{name}" for layer in LAYERS for between in ("", "include/")]
    if found := next((t for t in tries if t in files), None):
        return found
    missing = beside if name.startswith("../") else name
    return missing if missing.split("/")[0] in LAYERS and "/" in missing else None


def check_layers(root, files):
    """Includes go one way: dialects <- passes, dialects <- codegen, both <- compiler <- tools; the runtime is alone."""
    known = set(files)
    for path in files:
        layer = longest_prefix(path, MAY_INCLUDE)
        if not layer or not path.endswith((".c", ".cpp", ".cu", ".h", ".td")):
            continue
        for number, line in enumerate((text_of(root, path) or "").splitlines(), 1):
            match = re.match(r'\s*#?\s*include\s*["<]([^">]+)[">]', line)
            if not match:
                continue
            name = match[1]
            target = included_file(path, name, known)
            if target and not target.startswith(MAY_INCLUDE[layer]):
                yield Finding(path, number, "error", f"{layer} may not include {target}")
            elif layer == "runtime/" and name.startswith(FOREIGN_TO_RUNTIME):
                yield Finding(path, number, "error", f"the runtime may not include {name}")


def check_sizes(root, files):
    """Code files stay small."""
    for path in files:
        if not path.endswith(CODE) and posixpath.basename(path) != "CMakeLists.txt":
            continue
        lines = len((text_of(root, path) or "").splitlines())
        if lines > WARN_LINES:
            level = "error" if lines > MOST_LINES else "warning"
            yield Finding(path, lines, level, f"{lines} lines")


def check_text(root, files):
    """No leftovers, and no place of somebody's machine."""
    for path in files:
        text = text_of(root, path)
        if text is None:
            match = PLACE_IN_BINARY.search((root / path).read_bytes())
            if match:
                yield Finding(path, 1, "error", f"absolute path {match[0].decode()}")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := LEFTOVER.search(line):
                yield Finding(path, number, "error", f"{match[0]} left in the code")
            if match := PLACE.search(line.encode()):
                yield Finding(path, number, "error", f"absolute path {match[0].decode()}")


def check_generated(root, files):
    """Nothing that a command makes is tracked."""
    for path in files_of(root):
        if GENERATED.search(path):
            yield Finding(path, 1, "error", "generated file is tracked")


def check_readmes(root, files):
    """Every top folder says what lives there."""
    for folder in sorted({f.split("/")[0] for f in files if "/" in f and not f.startswith(".")}):
        if f"{folder}/README.md" not in files:
            yield Finding(folder, 0, "error", "no README.md")


def check_errors(root, files):
    """The compiler has one error channel: diagnostics, and llvm::Error where there is no IR."""
    for path in files:
        if not path.endswith((".cpp", ".h")) or path.startswith(("runtime/", "test/")):
            continue
        for number, line in enumerate((text_of(root, path) or "").splitlines(), 1):
            if "std::string &error" in line:
                yield Finding(path, number, "error", "an error as a text beside a result: return llvm::Expected or llvm::Error")


def check_words(root, files):
    """What users read has one word for each thing: the field's."""
    for path in filter(READ_BY_USERS.match, files):
        if path == "docs/glossary.md":
            continue
        for number, line in enumerate((text_of(root, path) or "").splitlines(), 1):
            for word, right in OTHER_WORDS.items():
                if match := re.search(word, line, re.IGNORECASE):
                    yield Finding(path, number, "error", f"'{match[0]}': the field says {right}")


def check_operations(root, files):
    """The description of an operation has its six parts."""
    for path in files:
        if not (path.startswith(op_docs.DOCUMENTED) and path.endswith(".td")):
            continue
        if not op_docs.defines_operations(text_of(root, path) or ""):
            continue
        try:
            for op in op_docs.operations(root, path):
                for message in op_docs.missing(op):
                    yield Finding(path, op.line, "error", f"{op.name}: {message}")
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            yield Finding(path, 0, "error", f"its operations cannot be read: {getattr(error, 'stderr', None) or error}")


CHECKS = (check_layers, check_sizes, check_text, check_generated, check_readmes, check_errors, check_words, check_operations)


def lint(root):
    """All findings under a root."""
    files = files_of(root, "--cached", "--others", "--exclude-standard")
    return [finding for check in CHECKS for finding in check(root, files)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "../..").resolve()
    findings = lint(root)
    for f in findings:
        print(f"{f.path}:{f.line}: {f.level}: {f.message}")
    errors = sum(f.level == "error" for f in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
