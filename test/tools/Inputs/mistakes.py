"""mistakes.py DIVISI SOURCE: each mistake of the table ends with its exit code and one line that says what is wrong and what to do.

Runs in an empty folder. Prints the mistakes that are answered otherwise, and how many there were.
"""

import pathlib
import pickle
import subprocess
import struct
import sys
import zipfile

DIVISI, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
MLP, DIGITS = f"{SOURCE}/test/models/mlp/model.onnx", f"{SOURCE}/examples/digits/mlp.onnx"
IMAGES = f"{SOURCE}/examples/digits/x.npy"
COMPILE = f"divisi compile {MLP} -o q"
DATA = "./p --data x=x.npy --data label=label.npy"

# Command line; exit code; what the line says.
MISTAKES = [
    # subcommands
    ("divisi", 2, "expected a subcommand of divisi: compile, plan, explain"),
    ("divisi compil model.onnx -o p", 2, "unknown subcommand 'compil' of divisi; did you mean 'compile'?"),
    ("divisi Plan model.onnx", 2, "unknown subcommand 'Plan' of divisi; did you mean 'plan'?"),
    ("divisi exlpain model.onnx", 2, "unknown subcommand 'exlpain'", "did you mean 'explain'?"),
    ("divisi train model.onnx", 2, "unknown subcommand 'train' of divisi", "there are: compile, plan"),
    ("divisi checkpoint exprt c -o w", 2, "unknown subcommand 'exprt' of divisi checkpoint; did you mean 'export'?"),
    ("divisi checkpoint", 2, "expected a subcommand of divisi checkpoint: export"),
    # flags
    (f"{COMPILE} --epoch 2", 2, "unknown flag --epoch of divisi compile; did you mean '--epochs', a flag of the program"),
    (f"{COMPILE} --epochs=2", 2, "unknown flag --epochs of divisi compile: it is a flag of the program that divisi compile writes"),
    (f"{COMPILE} --optmizer adam", 2, "unknown flag --optmizer of divisi compile; did you mean '--optimizer'?"),
    (f"{COMPILE} --learning-rate 0.1", 2, "unknown flag --learning-rate of divisi compile; did you mean '--lr'?"),
    (f"{COMPILE} --weight_decay 0.1", 2, "unknown flag --weight_decay", "did you mean '--weight-decay'?"),
    (f"{COMPILE} -devices 2", 2, "unknown flag -devices of divisi compile; did you mean '--devices'?"),
    (f"{COMPILE} --batch-size 8", 2, "unknown flag --batch-size", "divisi compile --help lists its flags"),
    (f"divisi --devices 2 compile {MLP}", 2, "unknown flag --devices of divisi: it is a flag of divisi compile"),
    ("divisi --verson", 2, "unknown flag --verson of divisi; did you mean '--version'?"),
    (f"divisi explain {MLP} --top 3", 2, "unknown flag --top of divisi explain: it is a flag of divisi plan"),
    (f"divisi plan {MLP} --clutser 8xh100", 2, "unknown flag --clutser of divisi plan; did you mean '--cluster'?"),
    (f"divisi compile {MLP} q", 2, "unexpected argument 'q' of divisi compile: -o q writes it"),
    ("divisi compile -o q", 2, "the argument model is missing: divisi compile --help"),
    ("divisi simulate --schedule 1f1b", 2, "--stages is missing: a pipeline needs --schedule and --stages"),
    # values
    (f"{COMPILE} --lr fast", 2, "--lr expects a number, got 'fast'"),
    (f"{COMPILE} --devices two", 2, "--devices expects a number from 1 to 4096, got 'two'"),
    (f"{COMPILE} --devices 0", 2, "--devices expects a number from 1 to 4096, got '0'"),
    (f"{COMPILE} --warmup-steps few", 2, "--warmup-steps expects a whole number, got 'few'"),
    (f"{COMPILE} --lr 1 --lr 2", 2, "--lr is given more than once: leave out all but one"),
    (f"{COMPILE} --lr", 2, "--lr needs a number after it"),
    (f"{COMPILE} --optimizer adamW2", 2, "--optimizer expects sgd, adam, adamw, adagrad, rmsprop, lion, lamb, lars, adafactor or muon, got 'adamW2'; did you mean 'adamw'?"),
    (f"{COMPILE} --precision fp61", 2, "--precision expects fp32, tf32, bf16 or fp16, got 'fp61'; did you mean 'fp16'?"),
    (f"{COMPILE} --loss cross-entropy", 2, "--loss expects cross_entropy, mse, bce, huber, l1, nll, kl, focal or triplet", "did you mean 'cross_entropy'?"),
    ("divisi simulate --schedule 1f2b --stages 2", 2, "--schedule", "got '1f2b'; did you mean '1f1b'?"),
    (f"divisi plan {MLP} --cluster 8xh10", 2, "--cluster", "8xh10", "did you mean 'h100'?"),
    # names
    (f"{COMPILE} --devices 2 --strategy data --pin fc.0.wieght=_,_", 1, "pin 'fc.0.wieght'", "did you mean 'fc.0.weight'?"),
    (f"{COMPILE} --mesh model=2 --pin fc.0.weight=_,modle", 1, 'no axis "modle"', "did you mean 'model'?"),
    (f"{COMPILE} --mesh stage=2 --microbatches 2 --cut /fc.2/Gem", 1, "no node '/fc.2/Gem'", "did you mean '/fc.2/Gemm'?"),
    (f"{COMPILE} --mesh stage=2 --microbatches 2 --cut fc.2", 1, "no node 'fc.2'", "did you mean '/fc.2/Gemm'?"),
    (f"{COMPILE} --dim bacth=3", 1, "--dim bacth=3 names no dimension of the model's inputs, which have none with a name"),
    (f"{COMPILE} --freeze fc.0.wight", 1, "--freeze fc.0.wight names no parameter of the model; did you mean 'fc.0.weight'?"),
    (f"{COMPILE} --freeze conv*", 1, "--freeze conv* names no parameter of the model; there are: fc.0.weight, fc.0.bias"),
    (f"{COMPILE} --weight-decay 1 --no-decay *.bais", 1, "--no-decay *.bais names no parameter that trains; there are: fc.0.weight"),
    (f"{COMPILE} --lr-factor fc.0.wieght=2", 1, "--lr-factor fc.0.wieght=2 names no parameter that trains; did you mean 'fc.0.weight'?"),
    (f"{COMPILE} --freeze fc.0.bias --lr-factor fc.0.bias=2", 1, "--lr-factor fc.0.bias=2 names no parameter that trains"),
    (f"{COMPILE} --lr-factor fc.*=2 --lr-factor *.bias=3", 1, "--lr-factor fc.*=2 and --lr-factor *.bias=3 are both given for 'fc.0.bias'"),
    (f"{COMPILE} --output los", 1, "--output los names no output of the model; did you mean 'loss'?"),
    (f"divisi compile {DIGITS} -o q", 1, "add a loss with --loss"),
    (f"divisi compile {DIGITS} -o q --loss mse", 2, "--loss needs --label NAME"),
    ("divisi compile strings.onnx -o q", 1, "unsupported operator: StringSplit", "docs/onnx.md"),
    (f"divisi plan {MLP} --cluster 8xh100 --price cheap", 2, "--price expects the price of a device and hour, such as 2.5/h, got 'cheap'"),
    (f"{COMPILE} --cluster 8xmi300x", 2, "programs are written for CPUs and NVIDIA's GPUs"),
    (f"{COMPILE} --stages x.csv", 2, "--stages: x.csv: this is not JSON: expected what divisi plan --objective pipedream --json prints"),
    (f"{COMPILE} --stages /dev/zero", 2, "--stages: /dev/zero: cannot be read"),
    (f"{COMPILE} --stages x.csv --devices 2", 2, "--stages FILE says which stages there are, and their devices: leave out --devices"),
    (f"divisi diff auto data=2 {MLP}", 2, "'auto': on which cluster? add --cluster, or auto@8xh100"),
    # files
    ("divisi compile modle.onnx -o q", 1, "modle.onnx: cannot read the model", "did you mean 'model.onnx'?"),
    ("divisi compile x.csv -o q", 1, "x.csv: not an ONNX model; it looks like CSV", "--data"),
    ("divisi compile x.npy -o q", 1, "x.npy: not an ONNX model; it looks like a NumPy array (.npy)", "--data"),
    ("divisi compile model.pt -o q", 1, "model.pt: not an ONNX model; it looks like a PyTorch file (.pt)", "torch.onnx.export"),
    ("divisi compile model.pkl -o q", 1, "it looks like a Python pickle", "torch.onnx.export"),
    ("divisi compile p.safetensors -o q", 1, "it looks like safetensors: weights alone", "docs/onnx.md"),
    ("divisi compile p -o q", 1, "it looks like a program", "compiled already"),
    ("divisi compile dump.txt -o q", 1, "it looks like a dump (.mlir): the name of a dump ends with .mlir"),
    ("divisi compile dmp.mlir -o q", 1, "dmp.mlir", "did you mean 'dump.mlir'?"),
    (f"divisi plan {MLP} --plan model.pt", 1, "'model.pt' is not a dump (.mlir); it looks like a PyTorch file (.pt)"),
    (f"{COMPILE} --plan dmp.mlir", 2, "--plan: there is no file 'dmp.mlir'; did you mean 'dump.mlir'?"),
    # the compiled program
    ("./p --epoch 2", 2, "unknown flag --epoch of p; did you mean '--epochs'?"),
    ("./p --data x=x.npy label=label.npy", 2, "unexpected argument 'label=label.npy' of p: a flag takes one value"),
    ("./p --data lable=label.npy", 2, "the model has no input 'lable'; did you mean 'label'?"),
    ("./p --data x=x.csv --data label=label.npy", 1, "'x.csv' has no header: its first line is to name the columns"),
    ("./p --data x=x.npz --data label=label.npy", 1, "'x.npz' is not a .npy file; it looks like an archive of NumPy arrays (.npz)"),
    ("./p --data x=xx.npy --data label=label.npy", 1, "cannot open 'xx.npy'", "did you mean 'x.npy'?"),
    (f"./p --data x={IMAGES} --data label=label.npy", 1, "--data x: expected F32 [N, 37]"),
    ("./p --data x=. --data label=label.npy", 1, "--data x: '.' is a folder of images, which are for inputs [N, C, H, W]", "F32 [N, 37]"),
    ("./p --data x=images.tar --data label=label.npy", 1, "--data x: 'images.tar' is a tar file of images"),
    (f"{DATA} --augment flop", 2, "--augment expects crop or flip, got 'flop'"),
    (f"{DATA} --augment flip", 2, "are for images, and no file of --data or --eval has any"),
    (f"{DATA} --mean 0,x", 2, "--mean"),
    (f"{DATA} --weights model.pt", 1, "'model.pt' is not a safetensors file; it looks like a PyTorch file (.pt)", "save_file"),
    (f"{DATA} --lr-schedule cosin", 2, "--lr-schedule expects constant, linear, cosine, step, polynomial, one-cycle or wsd", "did you mean 'cosine'?"),
    (f"{DATA} --lr-milestones 3,x", 2, "--lr-milestones", "expected a whole number from 1"),
    (f"{DATA} --lr-schedule step --lr-step-size 2 --lr-milestones 3", 2, "--lr-milestones replaces --lr-step-size: leave one of them out"),
    (f"{DATA} --lr-scale sqrt", 2, "--lr-scale", "--base-batch"),
    (f"{DATA} --steps -3", 2, "--steps", "expected a whole number from 1"),
    # divisi run
    ("divisi run --device 2 ./p", 2, "unknown flag --device of divisi run; did you mean '--devices'?"),
    ("divisi run /bin/true", 2, "--devices is missing, and '/bin/true' is no program that divisi compile has written"),
    ("divisi run --devices 2", 2, "name the program to run"),
    ("divisi run --devices 2 ./pp", 2, "cannot run './pp'", "did you mean './p'?"),
]


def npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def field(number, data):
    """A field of a protobuf message: a number, or bytes with their length. All numbers here are below 128."""
    return bytes([number << 3, data]) if isinstance(data, int) else bytes([number << 3 | 2, len(data)]) + data


def make_files():
    here = pathlib.Path()
    npy(here / "x.npy", "<f4", (12, 37), bytes(12 * 37 * 4))
    npy(here / "label.npy", "<i8", (12,), bytes(12 * 8))
    (here / "x.csv").write_text("0.5,1.5,2\n3,4,5\n")
    for archive, member in (("x.npz", "x.npy"), ("model.pt", "model/data.pkl")):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(member, b"...")
    (here / "model.pkl").write_bytes(pickle.dumps({"weight": [1.0]}))
    (here / "model.onnx").write_bytes(pathlib.Path(MLP).read_bytes())
    graph = field(1, field(1, b"x") + field(2, b"y") + field(3, b"l") + field(4, b"StringSplit")) + field(2, b"g") + field(12, field(1, b"y"))
    (here / "strings.onnx").write_bytes(field(1, 8) + field(8, field(2, 17)) + field(7, graph))
    for name in ("dump.txt", "dump.mlir"):
        subprocess.run([DIVISI, "compile", MLP, "--emit", "train", "-o", name], check=True)
    subprocess.run([DIVISI, "compile", MLP, "-o", "p"], check=True)


def wrong(command, code, parts):
    words = command.split()
    words[0] = DIVISI if words[0] == "divisi" else words[0]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    good = done.returncode == code and len(lines) == 1 and not done.stdout and lines[0].startswith("error: ")
    if good and all(part in lines[0] for part in parts):
        return ""
    return f"{command}\n  exit {done.returncode}, expected {code} and {parts}\n  {done.stdout}{done.stderr}"


make_files()
failures = [text for command, code, *parts in MISTAKES if (text := wrong(command, code, parts))]
print(*failures, sep="\n")
print(f"{len(MISTAKES)} mistakes, {len(failures)} answered otherwise")
sys.exit(1 if failures or len(MISTAKES) < 60 else 0)
