"""Where code asks an operation for its kind: an operation's own facets, and files that match patterns, may; others are counted, each
with its reason, in op_kinds.txt.

What only structures a module asks for nothing: constants, views (reshape), sums over microbatches, and the dialects Dist and Exec."""

import re

TABLE = "test/lint/op_kinds.txt"
SEARCHED = re.compile(r"(dialects|step|passes|codegen|compiler|tools)/.*\.(cpp|h)$")
TEST = re.compile(
    r"\b(?:isa|isa_and_nonnull|isa_and_present|dyn_cast|dyn_cast_or_null|dyn_cast_if_present|cast|getDefiningOp|Case)\s*<([^;{}()]*?Op\b[^;{}()]*?)>"
)
WALK = re.compile(r"\bwalk\s*\(\s*\[[^\]]*\]\s*\(\s*((?:\w+::)?\w+Op)\b")
NAME = re.compile(r"(?:(\w+)::)?(\w+)Op\b")
STRUCTURE = {"Constant", "Reshape", "Accumulate", "Func", "Module", "Return", "Yield"}
OTHER_DIALECTS = {"mlir", "func", "dist", "exec", "arith", "math", "scf", "memref", "vector", "LLVM", "NVVM", "gpu", "cf", "affine"}


def tests_of(text, defined):
    """(line, names of kinds of graph operations) of each test for a kind in the text; `defined`: those of the dialect Graph."""
    for match in sorted([*TEST.finditer(text), *WALK.finditer(text)], key=lambda match: match.start()):
        kinds = [name for scope, name in NAME.findall(match[1]) if scope not in OTHER_DIALECTS and name in defined and name not in STRUCTURE]
        if kinds:
            yield text.count("\n", 0, match.start()) + 1, kinds


def table_of(text):
    """The rows of a table of reasons, "A | B | C": [(line, [A, B, C])]."""
    return [(number, [part.strip() for part in line.split(" | ")]) for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]


def check(files, text_of):
    """(path, line, level, message) of each use that the table does not have."""
    defined = {name for path in files if path.startswith("dialects/Graph/") and path.endswith(".td") for name in re.findall(r"\bdef Graph_(\w+)Op\b", text_of(path))}
    rows = table_of(text_of(TABLE)) if TABLE in files else []
    for number, row in rows:
        if len(row) != 3 or not (row[1] == "any" or row[1].isdigit()):
            yield TABLE, number, "error", "not PATH | NUMBER or any | REASON"
    rows = [(number, row) for number, row in rows if len(row) == 3]
    used = set()
    for path in files:
        if not SEARCHED.match(path):
            continue
        found = list(tests_of(text_of(path), defined))
        row = next(((number, row) for number, row in rows if path == row[0] or (row[0].endswith("/") and path.startswith(row[0]))), None)
        if not found:
            continue
        if not row:
            yield path, found[0][0], "error", f"asks for the kind {found[0][1][0]}: that is a facet of the operation, or needs a reason in {TABLE}"
            continue
        used.add(row[0])
        if row[1][1] != "any" and len(found) != int(row[1][1]):
            level = "error" if len(found) > int(row[1][1]) else "warning"
            yield path, found[-1][0], level, f"asks {len(found)} times for kinds of operations, {row[1][1]} in {TABLE}"
    for number, row in rows:
        if number not in used:
            yield TABLE, number, "warning", f"{row[0]} asks for no kinds any more: remove this line"
