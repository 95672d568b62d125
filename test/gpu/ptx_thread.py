"""One thread of a PTX kernel, as far as its control flow and its addresses go: whole numbers are computed, floats are not.

What is read from memory is unknown, and so is all that follows from it; a branch on it is not taken. Whole numbers of 64 bits are taken to
be indices, which are spread over a range. Words of shared memory are what the thread wrote there, or zero, and a shuffle gives it its own.
"""

import re

POINTER = 40  # parameter i points to (i + 1) << POINTER
MOST_STEPS = 3_000_000
INDICES = 30_000  # that are read are less than this


class Access:
    """An instruction that reads or writes memory: its space, bytes for each thread, and its address at the first time."""

    def __init__(self, opcode, vector):
        parts = opcode.split(".")
        self.is_store, self.space = parts[0] == "st", parts[1]
        self.bytes = vector * int(parts[-1][1:]) // 8
        self.first = {}  # address by thread


class Kernel:
    def __init__(self, name):
        self.name, self.threads, self.shared = name, 1, 0
        self.parameters, self.lines, self.labels = [], [], {}


def read(text):
    """The kernels of a PTX module, by name; instructions as (line number, guard, opcode, operands)."""
    kernels, kernel = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if match := re.match(r"\.visible \.entry (\w+)", line):
            kernel = kernels[match[1]] = Kernel(match[1])
        elif kernel is None:
            continue
        elif match := re.match(r"\.param .* (\w+),?$", line):
            kernel.parameters.append(match[1])
        elif match := re.match(r"\.maxntid (\d+)", line):
            kernel.threads = int(match[1])
        elif match := re.match(r"(\$\w+):", line):
            kernel.labels[match[1]] = len(kernel.lines)
        elif match := re.match(r"(?:@(!?)(%p\d+) )?\s*([a-z][\w.]*)\s*(.*);", line):
            guard = match[2] and (match[2], match[1] == "")
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^\s,]+", match[4])
            kernel.lines.append((number, guard, match[3], operands))
        elif line == "}":
            kernel = None
    return kernels


def is_whole(kind):
    return kind[0] in "usb" and kind[:2] != "bf"


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


COMPARE = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << min(b, 64), "shr": lambda a, b: a >> min(b, 64),
    "min": min, "max": max, "div": lambda a, b: a // b if b else None, "rem": lambda a, b: a % b if b else None,
}  # fmt: skip


class Thread:
    """Runs a kernel as one thread; `counts` has how often each line was executed, `accesses` those of memory, by line."""

    def __init__(self, kernel, block, thread, accesses, steps=MOST_STEPS):
        self.kernel, self.accesses, self.thread = kernel, accesses, thread
        self.values = {"%tid.x": thread, "%ctaid.x": block, "%ntid.x": kernel.threads}
        self.counts, self.shared, self.names = {}, {}, {}
        self.steps = self.run(steps)

    def value(self, operand, bits=64):
        if operand[0] == "%":
            return self.values.get(operand)
        try:
            return int(operand, 0) & ((1 << bits) - 1)
        except ValueError:
            pass
        return None if operand[0].isdigit() else self.names.setdefault(operand, (len(self.names) + 1) << 24)  # a float, or memory of a block

    def run(self, most):
        at, steps, lines = 0, 0, self.kernel.lines
        while at < len(lines) and steps < most:
            number, guard, opcode, operands = lines[at]
            at += 1
            steps += 1
            self.counts[number] = self.counts.get(number, 0) + 1
            if guard and self.values.get(guard[0]) is not guard[1]:
                continue
            if opcode.startswith("bra"):
                at = self.kernel.labels[operands[0]]
            elif opcode == "ret":
                break
            elif opcode[:3] in ("ld.", "st."):
                self.access(number, opcode, operands)
            elif operands and operands[0][0] == "%":
                self.values[operands[0]] = self.compute(opcode.split("."), operands[1:])
        return steps

    def access(self, number, opcode, operands):
        memory, other = (operands[1], operands[0]) if opcode[0] == "l" else operands
        registers = re.findall(r"[^\s,{}]+", other)
        if opcode.startswith("ld.param"):
            self.values[registers[0]] = (self.kernel.parameters.index(memory.strip("[]")) + 1) << POINTER
            return
        access = self.accesses.get(number) or self.accesses.setdefault(number, Access(opcode, len(registers)))
        base, _, offset = memory.strip("[]").partition("+")
        address = self.value(base)
        access.first.setdefault(self.thread, None if address is None else address + int(offset or 0))
        if access.space == "shared" and opcode.endswith("b32") and address is not None:
            places = [address + int(offset or 0) + 4 * i for i in range(len(registers))]
            if opcode[0] == "s":
                self.shared.update(zip(places, map(self.value, registers)))
            else:
                self.values.update({register: self.shared.get(place, 0) for register, place in zip(registers, places)})
        elif opcode[0] == "l":
            for i, register in enumerate(registers):
                self.values[register] = 2654435761 * (address // 8 + i) % INDICES if address and opcode.endswith("b64") else None

    def compute(self, parts, operands):
        name, kind = parts[0], parts[-1]
        if name == "setp" or name == "selp" or kind == "pred":
            return self.predicate(parts, operands)
        if name == "mov" and operands[0][0] == "{":
            return None
        if name == "shfl":
            return self.value(operands[0], 32)
        bits = int(re.sub(r"\D", "", kind) or 64) if is_whole(kind) else 0
        if not bits:
            return self.value(operands[0]) if name == "cvta" else None
        arguments = [self.value(operand, bits) for operand in operands]
        if None in arguments:
            return None
        wide = 2 * bits if "wide" in parts else bits
        if name == "cvt":
            to = int(re.sub(r"\D", "", parts[-2]) or 32)
            return (signed(arguments[0] & ((1 << bits) - 1), bits) if kind[0] == "s" else arguments[0]) & ((1 << to) - 1)
        if kind[0] == "s" and name not in ("add", "sub", "and", "or", "shl"):
            arguments = [signed(argument & ((1 << bits) - 1), bits) for argument in arguments]
        if name in ("mov", "cvta"):
            result = arguments[0]
        elif name == "mad":
            result = arguments[0] * arguments[1] + arguments[2]
        elif name == "mul" and "hi" in parts:
            result = (arguments[0] * arguments[1]) >> bits
        elif name == "bfe":
            result = (arguments[0] >> arguments[1]) & ((1 << arguments[2]) - 1)
        elif name == "popc":
            result = arguments[0].bit_count()
        elif name in ("not", "neg"):
            result = ~arguments[0] if name == "not" else -arguments[0]
        elif name in BINARY and len(arguments) == 2:
            result = BINARY[name](*arguments)
        else:
            return None
        return None if result is None else result & ((1 << wide) - 1)

    def predicate(self, parts, operands):
        kind = parts[-1]
        if parts[0] == "selp":
            return self.value(operands[0] if self.values.get(operands[2]) else operands[1])
        if parts[0] == "setp":
            if not is_whole(kind) or parts[1] not in COMPARE:
                return None
            bits = int(kind[1:])
            arguments = [self.value(operand, bits) for operand in operands]
            if None in arguments:
                return None
            if kind[0] == "s":
                arguments = [signed(argument, bits) for argument in arguments]
            return COMPARE[parts[1]](*arguments)
        known = [self.values.get(operand) for operand in operands]
        if None in known:
            return None
        return {"and": all, "or": any, "not": lambda k: not k[0], "xor": lambda k: k[0] != k[1], "mov": all}[parts[0]](known)
