#!/usr/bin/env python3
"""Kernels of GPT-2 small, BERT base and ResNet-50 in bf16 as machine code for an H100, and how fast they can be by an estimate.

    machine_code.py --divisi build/bin/divisi [--only gpt2] [--limits] [--rows 20]
    machine_code.py --divisi build/bin/divisi [--limits] [--rows 5] --batch 4096 FILE.onnx ...

With files: their kernels instead, with batches of another size.

Needs ptxas (CUDA Toolkit) and nvdisasm (Toolkit, or `pip install nvidia-cuda-nvdisasm`), on the PATH or in CUDA_HOME; no GPU, no PyTorch. One
line for each kernel, those that take most of the step first: launches, MB that one moves (inputs and outputs once), threads of a block,
registers, share of the threads that can be resident, bytes of its narrowest and widest loads, bytes that a thread has in flight, instructions of a
thread, instructions per element of two bytes that it moves, microseconds, its share of the roofline, and what bounds it (roofline.py).
`--limits` checks the limits below; the last line is `N passed, N failed`.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "benchmark"), str(HERE.parent / "models"), str(HERE.parents[1] / "examples/large-graphs")]
import make_graph  # noqa: E402
import onnx  # noqa: E402
import ptx_thread  # noqa: E402
import roofline  # noqa: E402
import sass  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from tensors import bytes_of, elements_of  # noqa: E402

LARGE = 100e6  # bytes: of what kernels move that move more, at most NARROW is loaded by fewer than roofline.LOAD bytes at a time
NARROW, HALF = 0.1, 0.5  # or they reach this share of the roofline
SLOW, LEAST = 200e-6, 1 / 12  # s: kernels that take longer reach this share of the roofline
SPILLED = 1024  # bytes that a thread of any kernel spills
SMALL = 10e6  # bytes: kernels that move less are not held to a share of the roofline
ELEMENTWISE = 0.75  # of the roofline, all large kernels of the transformers together
NORM = 1.5  # times the bytes of a batch norm at BANDWIDTH
# Flop/s of products, convolutions and attention that no kernel of ours computes: 0.6 of the data sheet's dense peak, as the planner's (Presets.cpp).
LIBRARY = 0.6 * 989e12


def bert(g, o):
    """BERT's encoder, layer norms behind, without a mask, as a masked language model."""
    tokens = g.node("/wte", "Gather", [g.weight("wte.weight", (o.vocab, o.hidden)), g.input("idx", make_graph.INT64, "batch", o.seq)])
    x = g.layer_norm("/ln", g.node("", "Add", [tokens, g.weight("wpe.weight", (o.seq, o.hidden))]), o.hidden)
    mask = g.constant("", [[False] * o.seq] * o.seq, bool)
    for k in range(o.layers):
        scope = f"/blocks.{k}"
        x = g.layer_norm(f"{scope}/ln_1", g.node(scope, "Add", [x, make_graph.attention(g, f"{scope}/attn", x, mask, o)]), o.hidden)
        x = g.layer_norm(f"{scope}/ln_2", g.node(scope, "Add", [x, make_graph.feed_forward(g, f"{scope}/mlp", x, o)]), o.hidden)
    x = g.node("/head", "MatMul", [x, g.node("/head", "Transpose", ["wte.weight"], perm=[1, 0])])
    g.cross_entropy(g.reshape("", x, -1, o.vocab), g.reshape("", g.input("targets", make_graph.INT64, "batch", o.seq), -1))
    return g.model("bert")


MODELS = {
    "gpt2": ("gpt --vocab 50257 --gelu tanh", 8, ["adamw"], None),
    "bert": ("gpt --vocab 30522 --seq 128 --gelu erf", 32, ["adamw"], bert),
    "resnet50": ("wide-resnet --width 1", 256, ["sgd", "--momentum", "0.9"], None),
}


def rebatch(path, batch, to):
    """Writes a model with another number of samples: the first dimension of its inputs, and shapes that begin with it."""
    model = onnx.load(path)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    inputs = [value.type.tensor_type.shape.dim for value in model.graph.input if value.name not in weights]
    old = inputs[0][0].dim_value
    for shape in inputs:
        if len(shape) and shape[0].dim_value == old:
            shape[0].dim_value = batch
    constants = {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant" and node.attribute[0].HasField("t")}
    for node in model.graph.node:
        tensor = {**weights, **constants}.get(node.input[1]) if node.op_type in ("Reshape", "Expand") else None
        shape = None if tensor is None else numpy_helper.to_array(tensor).copy()
        if shape is not None and shape.size and shape[0] == old:
            shape[0] = batch
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, to)


def compile_file(divisi, path, batch, folder):
    """As compile_model, for a file; a text if it cannot be compiled."""
    name = path.parent.name if path.name == "model.onnx" else path.stem
    model = folder / f"{name}.onnx"
    rebatch(path, batch, model)
    for level in "ptx", "exec":
        command = [divisi, "compile", model, "--target", "cuda", "--cuda-arch", "90", "--precision", "bf16", "--optimizer", "adamw", "--emit", level]
        done = subprocess.run(list(map(str, [*command, "-o", folder / f"{name}.{level}"])), capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()[-300:]
    return folder / f"{name}.ptx", folder / f"{name}.exec"


def compile_model(divisi, name, folder):
    """The files of the kernels and of the step at the level exec."""
    words, batch, optimizer, make = MODELS[name]
    options = make_graph.parse([*words.split(), "-o", str(folder / f"{name}.onnx")])
    options.make = make or options.make
    model, _, length = make_graph.build(options)
    make_graph.write(model, options, length)
    for level in "ptx", "exec":
        command = [divisi, "compile", options.output, "--dim", f"batch={batch}", "--target", "cuda", "--cuda-arch", "90"]
        command += ["--precision", "bf16", "--optimizer", *optimizer, "--emit", level, "-o", folder / f"{name}.{level}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr.strip()[-500:]}")
    return folder / f"{name}.ptx", folder / f"{name}.exec"


def kernels(path, folder):
    """(name, launches, bytes, node, estimate) of each kernel."""
    text = path.read_text()
    threads, codes = ptx_thread.read(text), sass.assemble(path, 90, folder)
    for name, launches, blocks, moved, node in re.findall(r"^// (\w+): (\d+) launches of (\d+) blocks, (\d+) bytes each, (.*)", text, re.M):
        if int(launches) and int(blocks):
            yield name, int(launches), int(moved), node, roofline.estimate(threads[name], codes[name], int(blocks), int(moved))


def library_calls(path):
    """(calls, bytes, seconds) of the step's calls of libraries: the longer of their bytes and their products."""
    calls, moved, seconds, counts = 0, 0, 0.0, False
    for line in path.open():
        if "func.func" in line:
            counts = "@evaluate" not in line
        match = re.search(r"= exec\.call graph\.(\w+)", line)
        if not (match and counts) or "when = " in line:
            continue
        operands, results = line[line.rindex(" : ") :].split(" -> ")
        inputs, outputs = (re.findall(r"tensor<([^>]*)>", part) for part in (operands, results))
        outputs = outputs[: -1 if ") workspace" in line else None]
        sizes = [elements_of(tensor) for tensor in inputs + outputs]
        bytes_ = sum(map(bytes_of, inputs + outputs))
        flops = 0
        if "matmul" in match[1]:
            flops = 2 * (sizes[0] * sizes[1] * sizes[len(inputs)]) ** 0.5
        elif "conv" in match[1]:  # the filter is the smallest; its first dimension divides the output's channels
            filter_ = min((t for t in (inputs + outputs)[:3]), key=elements_of)
            images = {"conv": outputs[0], "conv_filter_grad": inputs[1], "conv_input_grad": inputs[0]}[match[1]]
            flops = 2 * elements_of(images) * elements_of(filter_) / int(filter_.split("x")[0])
        elif "attention" in match[1]:
            length, depth = map(int, inputs[0].split("x")[-3:-1])
            flops = (10 if "grad" in match[1] else 4) * sizes[0] * length * (0.5 if "causal" in line else 1)
        calls, moved, seconds = calls + 1, moved + bytes_, seconds + max(bytes_ / roofline.BANDWIDTH, flops / LIBRARY)
    return calls, moved, seconds


def show(name, rows, library, most):
    print(f"\n{name}\n{'kernel':<10}{'calls':>6}{'MB':>8}{'thr':>5}{'reg':>4}{'occ':>5}{'load':>7}{'fly':>4}{'instr':>7}{'/elem':>6}{'us':>8}{'roof':>6}  bound, node")
    for kernel, launches, moved, node, e in rows[:most]:
        share = moved / roofline.BANDWIDTH / e.seconds
        elements = moved / 2 / max(1, e.blocks * e.threads)
        print(f"{kernel:<10}{launches:>6}{moved / 1e6:>8.2f}{e.threads:>5}{e.registers:>4}{e.occupancy:>5.0%}{f'{e.load}-{e.widest}':>7}{e.flight:>4}"
              f"{e.instructions:>7.0f}{e.instructions / max(elements, 1e-9):>6.1f}{1e6 * e.seconds:>8.1f}{share:>6.0%}  {e.bound} x{e.asked:.1f} {node}")  # fmt: skip
    launches, moved = sum(r[1] for r in rows), sum(r[1] * r[2] for r in rows)
    seconds = sum(r[1] * r[4].seconds for r in rows)
    calls, other, library_seconds = library
    total = seconds + library_seconds + (launches + calls) * roofline.LAUNCH
    print(f"{name}: kernels {launches} launches, {moved / 1e9:.2f} GB, {1e3 * seconds:.2f} ms, {moved / roofline.BANDWIDTH / seconds:.0%} of the roofline; "
          f"libraries {calls} calls, {other / 1e9:.2f} GB, {1e3 * library_seconds:.2f} ms; step {1e3 * total:.2f} ms")  # fmt: skip


def check(name, rows):
    """What is wrong, one text for each limit; None where it is kept."""
    narrow = [f"{r[0]}: {r[4].narrow:.0%}, {r[3]}" for r in rows if r[2] > LARGE and r[4].narrow > NARROW and r[4].seconds * HALF > r[2] / roofline.BANDWIDTH]
    empty = [row[0] for row in rows if not row[4].accesses]
    slow = [f"{r[0]}: {1e6 * r[4].seconds:.0f} us, {r[3]}" for r in rows if r[4].seconds > max(SLOW, r[2] / roofline.BANDWIDTH / LEAST)]
    yield "no kernel over 100 MB at less than half of the roofline with loads under 8 bytes", narrow
    yield "no empty launch", empty
    yield "no slow kernel under a twelfth of the roofline", slow
    yield "no thread of millions of instructions", [f"{row[0]}: {row[3]}" for row in rows if row[4].cut]
    yield "no kernel spills more than 1 KB", [f"{row[0]}: {row[4].spilled}, {row[3]}" for row in rows if row[4].spilled > SPILLED]
    if name not in MODELS:
        return
    if name == "resnet50":
        norms = [row for row in rows if "BatchNorm" in row[3]]
        times = sum(r[1] * r[4].seconds for r in norms) / (sum(r[1] * r[2] for r in norms) / roofline.BANDWIDTH)
        print(f"{name}: kernels of batch norms take {times:.2f} times their bytes at {roofline.BANDWIDTH / 1e12} TB/s")
        yield "batch norm within 1.5 times its bytes", [] if times <= NORM else [f"{times:.2f}"]
    else:
        large = [row for row in rows if row[2] >= SMALL]
        share = sum(r[1] * r[2] for r in large) / roofline.BANDWIDTH / sum(r[1] * r[4].seconds for r in large)
        yield "elementwise kernels at 75 % of the roofline", [] if share >= ELEMENTWISE else [f"{share:.0%}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisi", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("files", type=pathlib.Path, nargs="*", metavar="FILE", help="models with a batch of known size")
    parser.add_argument("--batch", type=int, default=4096, help="the size for these files")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, help="where to keep the models, PTX and machine code")
    options = parser.parse_args()
    if not sass.find("ptxas") or not sass.find("nvdisasm"):
        print("skipped: ptxas or nvdisasm is not there (CUDA Toolkit; pip install nvidia-cuda-nvdisasm)\n1 passed, 0 failed")
        return 0
    passed = failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or pathlib.Path(temporary)
        for model in options.files or options.only or MODELS:
            name = model if model in MODELS else model.parent.name if model.name == "model.onnx" else model.stem
            compiled = compile_model(options.divisi, name, folder) if name == model else compile_file(options.divisi, model, options.batch, folder)
            if isinstance(compiled, str):
                print(f"skipped: {name}: {compiled}")
                continue
            ptx, step = compiled
            rows = sorted(kernels(ptx, folder), key=lambda row: -row[1] * row[4].seconds)
            show(name, rows, library_calls(step), options.rows)
            for what, wrong in check(name, rows) if options.limits else ():
                print(f"{'FAIL' if wrong else 'ok  '} {name}: {what}{': ' + ', '.join(wrong[:8]) if wrong else ''}")
                passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
