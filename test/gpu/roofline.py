"""An estimate of the time of a kernel on an H100 SXM, from its machine code and what a thread of its PTX does.

The bounds of a kernel: memory, the instructions that are issued, the pipes that execute them, the lines of the L1 cache that its accesses
touch, and the latency of loads that are not in flight at the same time (Little's law). Its time is the largest of them.
"""

import collections
import dataclasses
import math

import ptx_thread
import sass

# "NVIDIA H100 Tensor Core GPU Architecture" (whitepaper): multiprocessors; schedulers, registers, threads, blocks and shared memory of each.
PROCESSORS, SCHEDULERS, REGISTERS, THREADS, BLOCKS, SHARED = 132, 4, 65536, 2048, 32, 227 * 1024
CLOCK = 1.755e9  # Hz: the boost clock of the H100 PCIe; SXM's is higher, and not held under load
BANDWIDTH = 3.0e12  # bytes/s: 3.35 TB/s by the data sheet, of which copies reach nine tenths
# Cycles from a load to its data: 479 without load (Luo et al., arXiv 2402.13499, global memory of H100); queues double it where the bandwidth is
# used up. What all threads of a warp read alike is taken to be in the L1 cache (41 cycles, ibid.).
LATENCY, CACHED = 950, 41
# Cycles of one of a multiprocessor's four parts for an instruction of a warp ("CUDA C++ Programming Guide", throughput of arithmetic
# instructions, compute capability 9.0: 128 results per clock of fp32, 64 of whole numbers, comparisons, shifts and conversions, 32 of
# shuffles, 16 of special functions; 32 of loads and stores). The classes share a pipe where they have the same name.
PIPES = {
    "FADD": ("fma", 1), "FMUL": ("fma", 1), "FFMA": ("fma", 1), "IMAD": ("fma", 1), "MUFU": ("mufu", 8), "SHFL": ("lsu", 4), "LDG": ("lsu", 4),
    "STG": ("lsu", 4), "LDS": ("lsu", 4), "STS": ("lsu", 4), "DADD": ("fp64", 2), "DMUL": ("fp64", 2), "DFMA": ("fp64", 2),
    **dict.fromkeys("IADD3 LOP3 SHF ISETP FSETP FMNMX IMNMX SEL FSEL LEA PRMT VIADD PLOP3 I2FP LEA F2FP VIADDMNMX FCHK SGXT BMSK POPC".split(), ("alu", 2)),
    **dict.fromkeys("F2I I2F F2F FRND".split(), ("mufu", 8)),
}  # fmt: skip
LAUNCH = 1.5e-6  # s from one kernel of a graph to the next: its blocks begin when the last ones of the one before have ended
LOAD = 8  # bytes of a load that is wide enough
SAMPLES = 5  # blocks that are looked at
LONG, NEIGHBOUR = 20_000, 2_000  # instructions: after this number one block will do; of the thread beside the first one


@dataclasses.dataclass
class Estimate:
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    occupancy: float = 0  # resident threads of the most that there can be
    spilled: int = 0  # bytes of registers that are stored into local memory and loaded again
    load: int = 0  # bytes of the narrowest and of the widest load whose addresses differ between threads
    widest: int = 0
    narrow: float = 0  # bytes of loads of fewer than LOAD bytes, of the bytes that the kernel moves
    cut: bool = False  # a thread was not looked at until its end: the estimate is too low
    flight: int = 0  # bytes of a thread on their way at a time, where most of them are loaded
    instructions: float = 0  # of a thread
    accesses: float = 0  # to global memory, of a thread
    asked: float = 0  # bytes that all threads load and store, of the bytes that the kernel moves
    bounds: dict = dataclasses.field(default_factory=dict)  # seconds

    @property
    def seconds(self):
        return max(self.bounds.values())

    @property
    def bound(self):
        return max(self.bounds, key=self.bounds.get)


def trips(code, loops, counts, known):
    """How often a thread executes each instruction; a loop that ptxas unrolled is where most copies of a line are. `known` are the lines of
    the kernel: what it does not execute counts nothing."""
    copies = collections.Counter()
    for (line, opcode, _), loop in zip(code.instructions, loops):
        copies[line, loop, opcode.split(".")[0] in sass.MEMORY] += 1
    home = {}
    for (line, loop, _), number in copies.items():
        if loop and number > home.get(line, (0, None))[0]:
            home[line] = number, loop
    of = {}
    for memory in True, False:
        found = collections.defaultdict(list)
        for (line, loop, is_memory), number in copies.items():
            if loop and is_memory == memory and counts.get(line, 0) >= 1 and home[line][1] == loop and loop not in of:
                found[loop].append(counts[line] / number)
        of.update({loop: sorted(values)[len(values) // 2] for loop, values in found.items()})
    once = [min(1.0, counts.get(line, 0.0 if line in known else 1.0)) * (opcode != "NOP") for line, opcode, _ in code.instructions]
    return [of.get(loop, 1.0) if loop else number for number, loop in zip(once, loops)]


def waits(code, loops, times, cached):
    """(cycles that a thread waits for loads, bytes in flight at the place that loads most); `cached` are lines whose loads all threads share."""
    cycles, flight, most, pending, size, where, weight, latency = 0.0, 0, 0.0, set(), 0, None, 0.0, 0
    for instruction, loop, number in zip(code.instructions, loops, times):
        if pending and (loop != where or pending & sass.reads(instruction)):
            cycles += weight * latency
            if size * weight > most:
                most, flight = size * weight, size
            pending, size, weight, latency = set(), 0, 0.0, 0
        where = loop
        if instruction.opcode.startswith("LDG"):
            weight = max(number, weight)
            pending |= sass.destinations(instruction)
            size += sass.width(instruction)
            latency = max(latency, CACHED if instruction.line in cached else LATENCY)
    return cycles, flight


def lines_touched(access):
    """Lines of 128 bytes that a warp touches at once; 1 where all threads read the same."""
    low, high = access.first.get(0), access.first.get(1)
    stride = abs(high - low) if low is not None and high is not None else access.bytes
    return min(32, max(1, math.ceil(32 * max(stride, access.bytes if stride else 0) / 128))), stride


def estimate(kernel, code, blocks, moved):
    accesses, counts, cut = {}, collections.Counter(), False
    samples = min(SAMPLES, blocks)
    for i in range(samples):
        block = (2 * i + 1) * blocks // (2 * samples)
        ran = ptx_thread.Thread(kernel, block, 0, accesses)
        ptx_thread.Thread(kernel, block, 1, accesses, NEIGHBOUR)  # for the distances of addresses
        counts.update(ran.counts)
        cut = cut or ran.steps >= ptx_thread.MOST_STEPS
        if ran.steps > LONG:
            samples = i + 1
            break
    counts = collections.Counter({line: number / samples for line, number in counts.items()})
    loops = code.loops()
    times = trips(code, loops, counts, {line[0] for line in kernel.lines})
    e = Estimate(blocks, kernel.threads, code.registers, spilled=code.spilled, instructions=sum(times), cut=cut)
    allocated = math.ceil(max(1, code.registers) / 8) * 8 * kernel.threads
    resident = max(1, min(BLOCKS, THREADS // kernel.threads, REGISTERS // allocated, SHARED // (code.shared + 1024)))
    e.occupancy = resident * kernel.threads / THREADS
    warps = blocks * kernel.threads / 32
    busy = min(PROCESSORS, blocks)

    pipes, touched, widths, cached = collections.Counter(), 0.0, [], set()
    for (_, opcode, _), number in zip(code.instructions, times):
        pipe, cycles = PIPES.get(opcode.split(".")[0], ("issue", 0))
        pipes[pipe] += cycles * number
        pipes["issue"] += number
    for line, access in accesses.items():
        if access.space != "global":
            continue
        e.accesses += counts[line]
        lines, stride = lines_touched(access)
        if stride == 0:
            cached.add(line)
        touched += lines * counts[line]
        if stride and not access.is_store and counts[line] * access.bytes:
            widths.append(access.bytes)
            if access.bytes < LOAD:
                e.narrow += access.bytes * counts[line] * blocks * kernel.threads / max(1, moved)
        e.asked += (access.bytes if stride else 0) * counts[line] * blocks * kernel.threads / max(1, moved)
    e.load, e.widest = min(widths, default=0), max(widths, default=0)
    waiting, e.flight = waits(code, loops, times, cached)
    e.bounds = {
        "memory": moved / BANDWIDTH,
        **{pipe: warps * cycles / SCHEDULERS / busy / CLOCK for pipe, cycles in pipes.items()},
        "lines": warps * touched / busy / CLOCK,
        "latency": max(1.0, blocks / (PROCESSORS * resident)) * waiting / CLOCK,
    }
    return e
