"""The lists of node tests in the repository, and the table of operators."""

import collections
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
SUPPORTED, REASONS = HERE / "supported.txt", HERE / "reasons.txt"


def entries(path):
    """The lines of a list without comments."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def header(path):
    """The comment lines at the head of a list, which an update keeps."""
    return [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []


def read_reasons():
    """[(pattern of a whole test name, reason)]."""
    pairs = [line.partition(":") for line in entries(REASONS)]
    return [(re.compile(pattern.strip()), reason.strip()) for pattern, _, reason in pairs]


def update_supported(errors, selected):
    """Rewrites supported.txt: of the selected tests those that passed, the others as they were."""
    kept = {name for name in entries(SUPPORTED) if name not in selected}
    names = sorted(kept | {name for name, error in errors.items() if not error})
    SUPPORTED.write_text("\n".join([*header(SUPPORTED), *names]) + "\n")


def judge(cases, errors, everything):
    """The lines that make the suite fail.

    errors: {test: error or ""} of those that ran; everything: no filter was given.
    """
    supported, reasons = set(entries(SUPPORTED)), read_reasons()
    operators = {c.operator for c in cases if errors.get(c.name) == ""}
    reason = lambda name: next((text for pattern, text in reasons if pattern.fullmatch(name)), None)
    bad = []
    for c in cases:
        error = errors.get(c.name)
        if error is None:
            if c.name in supported:
                bad.append(f"{c.name}: listed in supported.txt, but it cannot be run: {c.skip}")
        elif error and c.name in supported:
            bad.append(f"{c.name}: broken: {error}")
        elif error and c.operator in operators and not reason(c.name):
            bad.append(f"{c.name}: {c.operator} is supported; mend this or give the reason in reasons.txt: {error}")
        elif not error and c.name not in supported:
            bad.append(f"{c.name}: passes, but is not in supported.txt (--update)")
    if everything:
        known = {c.name for c in cases}
        bad += [f"{name}: listed in supported.txt, but there is no such test" for name in sorted(supported - known)]
        failing = [name for name, error in errors.items() if error]
        bad += [
            f"reasons.txt: {pattern.pattern}: no failing test has this name"
            for pattern, _ in reasons
            if not any(map(pattern.fullmatch, failing))
        ]
    return bad


TITLE = "# ONNX operators"


def page(old, table):
    """A page with a new table: the text above its title is kept."""
    return old.partition(TITLE)[0] + table


def table(cases, errors, version):
    """docs/onnx.md: supported operators with their tests, then the names of the others."""
    by_operator = collections.defaultdict(list)
    for c in cases:
        by_operator[c.operator].append(c)
    ran = [c for c in cases if c.name in errors]
    passed = sum(not errors[c.name] for c in ran)
    lines = [
        TITLE,
        "",
        f"The backend node tests of onnx {version} were compiled for the CPU and run. Of the {len(ran)} tests on plain",
        f"tensors and sequences {passed} pass, expanded tests included. {len(cases) - len(ran)} others are left out: optionals, strings, and",
        "element types that NumPy lacks. In an expanded test the operator is replaced by its function body. The table is made by",
        "`test/onnx/node_tests.py --divisi PATH --table docs/onnx.md`.",
        "",
        "| operator | opset versions tested | tests passed | expanded |",
        "|---|---|---|---|",
    ]
    other, reasons = [], read_reasons()
    for operator, group in sorted(by_operator.items()):
        score = {}
        for expanded in (False, True):
            runs = [errors[c.name] for c in group if c.name in errors and c.expanded == expanded]
            score[expanded] = f"{sum(not e for e in runs)} / {len(runs)}" if runs else ""
        if not any(errors.get(c.name) == "" for c in group):
            explained = [any(p.fullmatch(c.name) for p, _ in reasons) for c in group if c.name in errors]
            if not explained or not all(explained):
                other.append(operator)
            continue
        versions = ", ".join(map(str, sorted({c.opset for c in group if c.name in errors and not c.expanded})))
        lines.append(f"| {operator} | {versions} | {score[False]} | {score[True]} |")
    lines += ["", "## Not supported", "No test of these operators passes: all are left out, or some fail for a reason that is not in the next table: " + (", ".join(other) or "none") + "."]
    if reasons:
        lines += ["", "## Tests that do not pass", "| tests | reason |", "|---|---|"]
        lines += ["| `{}` | {} |".format(pattern.pattern.replace("|", "\\|"), text) for pattern, text in reasons]
    return "\n".join(lines) + "\n"
