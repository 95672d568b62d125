"""What ptxas makes of kernels: machine instructions by kernel, with their loops and the lines of PTX that they come from."""

import collections
import os
import pathlib
import re
import shutil
import subprocess

LINE = re.compile(r"//## File .*, line (\d+)")
INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(@!?U?P\w+ )?\s*([A-Z][\w.]*)\s*([^;]*);")
MEMORY = {"LDG": ("global", False), "STG": ("global", True), "LDS": ("shared", False), "STS": ("shared", True)}

Instruction = collections.namedtuple("Instruction", "line opcode operands")


def find(tool):
    """ptxas or nvdisasm: on the PATH, in CUDA_HOME, or in the Toolkit's usual places."""
    folders = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", *sorted(map(str, pathlib.Path("/usr/local").glob("cuda-*")))]
    return shutil.which(tool) or next(filter(None, (shutil.which(tool, path=f"{folder}/bin") for folder in folders if folder)), None)


class Code:
    """The instructions of a kernel; of each the innermost loop that it is in: (first, last) instruction, or None."""

    def __init__(self):
        self.instructions, self.labels, self.registers, self.shared = [], {}, 0, 0
        self.spilled = 0  # bytes that a thread stores into local memory and loads from it, each place once

    def loops(self):
        found = []
        for at, (_, opcode, operands) in enumerate(self.instructions):
            target = re.search(r"`\((\.L_x_\d+)\)", operands)
            if opcode.startswith("BRA") and target and self.labels.get(target[1], at + 1) < at:
                found.append((self.labels[target[1]], at))
        return [min((l for l in found if l[0] <= at <= l[1]), key=lambda l: l[1] - l[0], default=None) for at in range(len(self.instructions))]


def assemble(ptx, architecture, folder):
    """The code of the kernels of a file, by name."""
    cubin = folder / (ptx.stem + ".cubin")
    told = subprocess.run([find("ptxas"), "-v", "-O3", "-lineinfo", f"-arch=sm_{architecture}", ptx, "-o", cubin], check=True, capture_output=True, text=True).stderr
    text = subprocess.run([find("nvdisasm"), "-c", "-gp", cubin], check=True, capture_output=True, text=True).stdout
    codes, code, line = collections.defaultdict(Code), None, 0
    for row in text.splitlines():
        if match := re.match(r"\.text\.(\w+):", row):
            code, line = codes[match[1]], 0
        elif match := LINE.search(row):
            line = int(match[1])
        elif code and (match := re.match(r"(\.L_x_\d+):", row)):
            code.labels[match[1]] = len(code.instructions)
        elif code and (match := INSTRUCTION.search(row)):
            code.instructions.append(Instruction(line, match[2], match[3]))
    name = ""
    for row in told.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", row):
            name = match[1]
        if match := re.search(r"Used (\d+) registers", row):
            codes[name].registers = int(match[1])
        if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", row):
            codes[name].spilled = int(match[1]) + int(match[2])
        if match := re.search(r"(\d+) bytes smem", row):
            codes[name].shared = int(match[1])
    return codes


def width(instruction):
    """Bytes that a thread reads or writes."""
    opcode = instruction.opcode
    return 16 if ".128" in opcode else 8 if ".64" in opcode else 2 if "16" in opcode else 1 if re.search(r"\.[US]8", opcode) else 4


def destinations(instruction):
    """The registers that a load writes."""
    match = re.match(r"R(\d+)", instruction.operands)
    return set(range(int(match[1]), int(match[1]) + max(1, width(instruction) // 4))) if match else set()


def reads(instruction):
    """The registers that an instruction reads; those of addresses are a pair, of stores as many as are stored."""
    operands = instruction.operands
    if instruction.opcode.split(".")[0] not in ("STG", "STS", "ST"):
        operands = operands.partition(",")[2]
    found = {int(number) for number in re.findall(r"\bR(\d+)", operands)}
    found |= {int(number) + 1 for number in re.findall(r"\bR(\d+)\.64", operands)}
    if instruction.opcode.startswith(("STG", "STS")):
        first = re.search(r", R(\d+)", operands)
        found |= set(range(int(first[1]), int(first[1]) + width(instruction) // 4)) if first else set()
    return found
