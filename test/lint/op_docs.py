#!/usr/bin/env python3
"""What the .td files say of each operation: the lint of its parts, and its example as a module that can be verified.

    op_docs.py [ROOT]     writes the example of every documented operation, each a module of its own
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Operations are described in these folders; each new dialect belongs here.
DOCUMENTED = ("dialects/Dist/", "dialects/Exec/", "dialects/Graph/")
TOOLS = "/usr/lib/llvm-22/bin"
PARTS = re.compile(
    r"\*\*Semantics\.\*\*(?P<semantics>.*)\*\*Operands and results\.\*\*(?P<tensors>.*)\*\*Constraints\.\*\*"
    r"(?P<constraints>.*)\*\*Example\.\*\*(?P<example>.*)\*\*Inserted by\*\*(?P<inserted>.*)\*\*Removed by\*\*(?P<removed>.*)",
    re.DOTALL,
)

# `names`: of operands, results, attributes and regions. `description`: without the file's indentation.
Operation = collections.namedtuple("Operation", "path line name summary description names")


def tablegen():
    """The path of llvm-tblgen: of the LLVM that the compiler is built with, or from PATH."""
    found = shutil.which("llvm-tblgen", path=os.pathsep.join([TOOLS, os.environ.get("PATH", "")]))
    if not found:
        raise FileNotFoundError("llvm-tblgen is neither in " + TOOLS + " nor in PATH")
    return pathlib.Path(found).resolve()


def operations(root, path):
    """The operations that a .td file defines, in its order. Raises CalledProcessError when it does not parse."""
    tool = tablegen()
    command = [tool, "--dump-json", "-I", root, "-I", tool.parent.parent / "include", root / path]
    records = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    found = []
    for definition in records["!instanceof"].get("Op", []):
        record = records[definition]
        file, line = record["!locs"][-1].rsplit(":", 1)
        if pathlib.PurePath(file).name != pathlib.PurePath(path).name:
            continue
        name = records[record["opDialect"]["def"]]["name"] + "." + record["opName"]
        names = [arg[1] for dag in ("arguments", "results", "regions") for arg in record[dag]["args"]]
        text = "\n".join(line.strip() if line.isspace() else line for line in record["description"].splitlines())
        found.append(Operation(path, int(line), name, record["summary"], text, names))
    return sorted(found, key=lambda op: op.line)


def defines_operations(text):
    return re.search(r"^def \w+Op\b", text, re.MULTILINE) is not None


def example_of(op):
    """The code of the example, or None."""
    match = re.search(r"```mlir\n(.*?)\n\s*```", op.description, re.DOTALL)
    return match and match[1]


def missing(op):
    """What is wrong with an operation's text, one phrase each."""
    if not op.summary:
        yield "no summary"
    parts = PARTS.search(op.description)
    if not parts:
        yield "its description does not have the six parts in their order (dialects/Dist/Documentation.td)"
        return
    if not re.search(r"`[^`]*=[^`]*`", parts["semantics"]):
        yield "its semantics are no equation"
    for name in op.names:
        if not re.search(rf"`{name}`", parts["tensors"]):
            yield f"'{name}' is not described"
    numbers = [int(n) for n in re.findall(r"^\s*(\d+)\. \S", parts["constraints"], re.MULTILINE)]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        yield "its constraints are not numbered from 1 on"
    if not re.search(rf"\b{re.escape(op.name)}\b", example_of(op) or ""):
        yield "no example"
    for part, what in (("inserted", "inserts"), ("removed", "removes")):
        if not re.search(r"\w", parts[part].strip().removesuffix(".")):
            yield f"it does not say who {what} it"


def types_in(text):
    """The types at the top level of a list such as `tensor<4xf32>, tensor<i64>`."""
    types, depth = [""], 0
    for c in text:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            types.append("")
        else:
            types[-1] += c
    return [t.strip() for t in types if t.strip()]


def operand_types(statement, count):
    """The types of the operands of one operation: in parentheses, before the arrow, or the one that all have."""
    signature = statement.rsplit(" : ", 1)[1]
    if signature.startswith("("):
        depth = [0]
        for c in signature:
            depth.append(depth[-1] + (c == "(") - (c == ")"))
        return types_in(signature[1 : depth.index(0, 1) - 1])
    types = types_in(signature.split(" -> ")[0])
    return types * count if len(types) == 1 else types


def module_of(op):
    """The example as a module: one that is none itself becomes a function's body, and what it uses the arguments."""
    example = example_of(op)
    if re.match(r"\s*(func\.func|dist\.plan|dist\.schedule)\b", example):
        return example + "\n"
    statement = " ".join(example.split())
    operands = re.findall(r"%\w+", statement.split("=", 1)[1] if statement.startswith("%") else statement)
    types = operand_types(statement, len(operands)) if operands else []
    if len(types) != len(operands):
        raise ValueError(f"{op.path}:{op.line}: the example's operands and types do not match: {statement}")
    arguments = ", ".join(f"{value}: {type}" for value, type in zip(operands, types))
    return f"func.func @example({arguments}) {{\n  {statement}\n  return\n}}\n"


def documented(root):
    """All operations of the folders that are documented."""
    files = sorted(p.relative_to(root).as_posix() for folder in DOCUMENTED for p in (root / folder).glob("*.td"))
    for path in files:
        if defines_operations((root / path).read_text()):
            yield from operations(root, path)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "../..").resolve()
    print("\n// -----\n\n".join(f"// {op.name}\n{module_of(op)}" for op in documented(root)))


if __name__ == "__main__":
    main()
