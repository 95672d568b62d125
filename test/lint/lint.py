#!/usr/bin/env python3
"""Checks the rules of the project: who may include whom, file sizes, leftovers, paths, generated files, READMEs, words of the
field, calls whose arguments create operations, and what the description of an operation says.

    lint.py [ROOT]

Looks at the files that git tracks or would track. One finding a line; exit code 1 if any is an error.
"""

import collections
import pathlib
import posixpath
import re
import subprocess
import sys

import call_order
import op_docs
import op_kinds

ABI = "runtime/include/divisi/abi.h"
# What names in flags mean, and mistakes; the price of an all_reduce. They need nothing.
SHARED = tuple(f"runtime/include/divisi/{name}.h" for name in ("suggest", "file_kind", "pattern", "all_reduce", "chunk_hash"))
LAYERS = ("dialects", "step", "passes", "codegen", "compiler", "tools", "runtime")
# By the longest prefix of a file's path: the prefixes of what it may include among our own files.
MAY_INCLUDE = {
    "dialects/": ("dialects/",),
    "dialects/Dist/": ("dialects/Dist/",),
    "step/": ("dialects/", "step/"),
    "passes/": ("dialects/", "step/", "passes/", *SHARED),
    "codegen/": ("dialects/", "step/", "codegen/", ABI),
    "compiler/": ("dialects/", "step/", "passes/", "codegen/", "compiler/", ABI, *SHARED),
    "tools/": ("dialects/", "step/", "passes/", "codegen/", "compiler/", "tools/", "runtime/"),
    "runtime/": ("runtime/",),
}
FOREIGN_TO_RUNTIME = ("llvm/", "llvm-c/", "mlir/", "mlir-c/", "clang/")

CODE = (".c", ".cpp", ".cu", ".h", ".td", ".py", ".sh", ".cmake", ".mlir")
WARN_LINES, MOST_LINES = 600, 1000
# Of production, and of the tools, which parse flags and print. What is longer stands here with its lines, and is to become shorter.
MOST_OF_PRODUCTION = (("tools/divisi/", 200), ("dialects/", 500), ("step/", 500), ("passes/", 500), ("codegen/", 500), ("compiler/", 500), ("runtime/", 500))
LONGER = {}
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
PLACE = re.compile(rb"(?<![\w.$~}/-])/(?:home|work|root)(?:/[\w.-]|(?![\w/.-]))")
PLACE_IN_BINARY = re.compile(rb"/(?:home|work|root)/[\w.-]+/|site-packages/")
GENERATED = re.compile(
    r"(^|/)(build(-[^/]*)?|CMakeFiles|__pycache__|Testing)/|(^|/)(CMakeCache\.txt|compile_commands\.json|\.ninja_\w+)$"
    r"|\.(o|a|so|pyc|inc|ninja|ptx|cubin|s|ll|bc|log|jsonl|exe)$"
)

# What is written speaks the words of docs/glossary.md. The history in docs/decisions.md stays as it was written. Other
# uses that are right, or that cannot change yet, are in a table with their reasons.
WORDS = "test/lint/words.txt"
NOT_SEARCHED = ("docs/decisions.md", "docs/glossary.md", "test/lint/lint.py", "test/lint/lint_test.py", WORDS)
OTHER_WORDS = {
    r"comput\w+ (?:\w+ ){0,2}again\b": "recomputed, rematerialization",
    r"\bcut (?:up|into pieces)\b|\bin (?:\w+ )?pieces\b": "sharded, partitioned",
    r"\bgrids? of (?:devices|named)": "device mesh",
    r"\bin a row\b": "consecutive; one-dimensional mesh",
    r"\bruns? empty\b": "drains",
    r"\bbusy cells\b": "utilization",
    r"\blittle crosses\b": "cut with the fewest live bytes",
    r"\bcertified\b": "proven; optimality gap",
    r"\bwaited for\)": "exposed communication",
    r"\bcommunication (?:\w+ ){0,2}hidden|\bhidden (?:\w+ ){0,2}communication|\bhid(?:den|e|es) behind\b": "overlapped",
    r"\bfor programs\b": "machine-readable",
    r"\bwhole on (?:every|each)\b": "replicated",
    r"\bgrow(?:s|n)? until\b": "is padded until",
    r"\bcarr\w+ (?:\w+ ){0,2}plans? out\b": "SPMD partitioning",
    r"\bcounts? for nobody\b": "unattributed",
    r"\b(?:whoever|(?:what|until|in which) (?:somebody|nobody))\b": "a use; the operation that reads it",
    r"\bwho (?:asks|needs|has|reads|wants|waits)\b": "a use; the operation that reads it",
    r"\blook(?:s|ed|ing)? back for\b": "trace through",
    r"\bfolders? of (?:the |a )?(?:node|model's node)": "module scope",
    r"\bproducts? of (?:16 bits|b?f16|bf16|fp16)": "matmul, GEMM",
    r"\bfollows? (?:it|them) in the same call\b": "epilogue fusion",
    r"\bactivations held\b": "in-flight microbatches, live activations",
    r"\barithmetic of (?:a|the) device\b": "peak FLOP/s",
    r"\bmoments and (?:the )?update\b": "optimizer state",
    r"\b(?:forward|backward) parts?\b": "forward pass, backward pass",
    r"\bparts? (?:\w+ ){0,3}recomputed\b": "segment",
    r"\bsteps later than it comes\b": "staleness",
    r"\bso many\b": "n; at most n",
    r"\brank(?:s|ed|ing)? (?:the )?(?:plans|pipelines)\b": "to order; a rank is a process",
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
        most = next((most for folder, most in MOST_OF_PRODUCTION if path.startswith(folder) and path.endswith((".cpp", ".h"))), None)
        if most and lines > LONGER.get(path, most):
            yield Finding(path, lines, "error", f"{lines} lines: at most {LONGER.get(path, most)} here")
        elif lines > WARN_LINES:
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


def accepted_words(root):
    """The lines of the table of accepted uses: its number, and path, text and reason."""
    return op_kinds.table_of((root / WORDS).read_text()) if (root / WORDS).is_file() else []


def words_of(text):
    """The other words in a text, in one line or over the end of a line: number of the line, what is written, the right word."""
    lines = text.splitlines()
    starts = [re.sub(r"^[\s/#*;|<>!-]*", "", line) for line in lines[1:]] + [""]
    # Most words are nowhere in a text: each is sought in the whole before it is sought line by line.
    whole = " ".join([*lines[:1], *starts])
    here = {word: right for word, right in OTHER_WORDS.items() if re.search(word, whole, re.IGNORECASE)}
    for number, (line, following) in enumerate(zip(lines, starts), 1):
        for word, right in here.items():
            match = re.search(word, f"{line} {following}", re.IGNORECASE)
            if match and match.start() < len(line):
                yield number, match[0], right


def check_words(root, files):
    """One word for each thing: the field's. An accepted use that is gone leaves the table."""
    accepted, unused = {}, {}
    for number, parts in accepted_words(root):
        if len(parts) == 3:
            accepted.setdefault(parts[0], []).append((number, parts[1]))
            unused[number] = parts
        else:
            yield Finding(WORDS, number, "error", "not PATH | TEXT OF THE LINE | REASON")
    for path in (f for f in files if f not in NOT_SEARCHED):
        text = text_of(root, path) or ""
        lines = text.splitlines()
        for number, found, right in words_of(text):
            uses = [entry for entry, use in accepted.get(path, []) if use in lines[number - 1]]
            if not uses:
                yield Finding(path, number, "error", f"'{found}': the field says {right}")
            for entry in uses:
                unused.pop(entry, None)
    for number, (path, use, _) in unused.items():
        yield Finding(WORDS, number, "warning", f"'{use}' is no such use in {path} any more: remove this line")


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


def check_op_kinds(root, files):
    """What an operation is stands in its facets: who asks it for its kind says why."""
    for path, line, level, message in op_kinds.check(files, lambda path: text_of(root, path) or ""):
        yield Finding(path, line, level, message)


def check_call_order(root, files):
    """No program depends on the order in which a compiler evaluates the arguments of a call."""
    for path, line, message in call_order.check(files, lambda path: text_of(root, path) or ""):
        yield Finding(path, line, "error", message)


CHECKS = (check_layers, check_sizes, check_text, check_generated, check_readmes, check_errors, check_words, check_op_kinds, check_call_order, check_operations)


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
