#!/usr/bin/env python3
"""Writes files of PyTorch's exporters for small models, and the results of training them with PyTorch.

    python make_exports.py [case ...]

<case>/EXPORTER.onnx    the file as it was written, without the places in source files that it names
<case>/data/<name>.npy  one file per input: consecutive rows are consecutive batches
<case>/reference.json   losses of 12 steps in train(), and for each file what trains in it and what is expected

Needs torch, onnx, onnxscript and numpy.
"""
import copy, io, json, pathlib, sys
import numpy as np
import onnx
import torch
import torch.nn as nn

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import make_models  # noqa: E402
from modules import (BatchNorm, Dropout, Attention, Tied, Norms, Bce, Encoder, Dlrm, Lora, WeightNorm, Siamese, Recurrent, Packed,
                     Scaled, Bag, Bags, Scripted, Pooled, Strided, Mixed, Stops, Stable, FrozenNorm, Queries, Views, Ties, Mixup,
                     Resized, Edges, Filters, MaskedRows, Scattered)  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
K, STEPS = make_models.K, make_models.STEPS
OPTIMIZERS = (
    {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-2},
    {"name": "adamw", "lr": 5e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1},
)


# ---------------------------------------------------------------- the exporters

def torchscript(model, args, inputs, training):
    """The older exporter: as training wants it, or with its defaults, which are for inference."""
    options = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if training else {}
    f = io.BytesIO()
    torch.onnx.export(model, args, f, dynamo=False, input_names=inputs, output_names=["loss"], **options)
    return onnx.load_from_string(f.getvalue())


def dynamo(model, args, inputs, optimize):
    return torch.onnx.export(model, args, dynamo=True, optimize=optimize, verbose=False,
                             input_names=inputs, output_names=["loss"]).model_proto


EXPORTERS = {
    "torchscript": lambda m, *a: torchscript(m.train(), *a, training=True),
    "torchscript_default": lambda m, *a: torchscript(m.train(), *a, training=False),
    "dynamo": lambda m, *a: dynamo(m.train(), *a, optimize=False),
    "dynamo_default": lambda m, *a: dynamo(m.train(), *a, optimize=True),
    "dynamo_eval": lambda m, *a: dynamo(m.eval(), *a, optimize=False),
}


def without_places(m):
    """Removes the lines of source files that made a node, which hold this machine's paths, and what is there twice."""
    def clean(x):
        if "doc_string" in x.DESCRIPTOR.fields_by_name:
            x.ClearField("doc_string")
        if "metadata_props" in x.DESCRIPTOR.fields_by_name:
            kept = [p for p in x.metadata_props if p.key not in ("namespace", "pkg.torch.onnx.stack_trace")]
            del x.metadata_props[:]
            x.metadata_props.extend(kept)

    def graph(g):
        for x in [g, *g.node, *g.initializer, *g.value_info, *g.input, *g.output]:
            clean(x)
        for a in (a for n in g.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH):
            graph(a.g)
    clean(m)
    graph(m.graph)
    assert str(HERE).encode() not in m.SerializeToString(), "path left in model"
    return m


def trained_in(m, model):
    """Names of the initializers that hold a parameter which PyTorch trains, perhaps in another order."""
    trained = {n: p.detach().numpy() for n, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
    sorts = [np.sort(p, axis=None) for p in trained.values() if p.size > 1]
    names, floats = [], (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
    for i in m.graph.initializer:
        if i.data_type in floats and i.name not in dict(model.named_buffers()):
            a = onnx.numpy_helper.to_array(i).astype(np.float64)
            if i.name in trained or any(a.size == s.size and np.array_equal(np.sort(a, axis=None), s) for s in sorts):
                names.append(i.name)
    return sorted(names)


def make(name, model, data, batch, expect, to=torch.float32):
    """One case. expect: {exporter: {"refused": text} or {"warnings": [texts], "flags": text}}; a file that is not refused
    must train as PyTorch does, unless it says "differs". to: the type of the exported module; PyTorch trains it in float32 from the same
    numbers, or in float64."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(to))
    folder = HERE / name
    (folder / "data").mkdir(parents=True, exist_ok=True)
    data = {n: np.ascontiguousarray(v) for n, v in data.items()}
    first = tuple(t.to(to) if t.is_floating_point() else t for t in make_models.batches(data, batch)[0])
    runs = []
    for opt in OPTIMIZERS:
        losses, grads, after = make_models.train(model, data, batch, opt, lambda f, row: f(*row), double=to == torch.float64)
        runs.append({"optimizer": opt, "losses": losses})
    print(name, *(f"{x:.4f}" for x in losses))
    files = {}
    for exporter, expected in expect.items():
        m = without_places(EXPORTERS[exporter](copy.deepcopy(model).to(to), first, list(data)))
        raw = m.SerializeToString()
        assert len(raw) < 60_000, f"{name}/{exporter}.onnx has {len(raw)} bytes"
        (folder / f"{exporter}.onnx").write_bytes(raw)
        files[exporter] = {"trains": trained_in(m, model), **expected}
    for n, v in data.items():
        np.save(folder / "data" / f"{n}.npy", v)
    ref = {"inputs": {n: {"shape": [batch, *v.shape[1:]], "dtype": str(v.dtype)} for n, v in data.items()},
           "batch": batch, "steps": STEPS, "files": files, "runs": runs, "torch": torch.__version__.split("+")[0]}
    (folder / "reference.json").write_text(json.dumps(ref, indent=1) + "\n")


# ---------------------------------------------------------------- cases

def rows(*shape):
    return torch.randn(*shape).numpy()


def classes(n, width, count):
    x, y = make_models.vectors(n, width, count)
    return {"x": x, "label": y}


def bits(n, width, *shape):
    x = torch.randn(n, width)
    y = (x @ torch.randn(width, *shape) > 0).float()
    return {"x": x.numpy(), "label": y.numpy()}


def sequences(n, length=8, vocab=11):
    x, y = make_models.tokens(n, length, vocab)
    return {"idx": x, "targets": y}


def perturbed(model):
    """No two parameters are equal, and none is all zero, so that an exporter cannot merge or leave out any."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return model


AGREES = {}
MADE_UP = {"warnings": ["gave them names of its own"]}
IDLE = {"warnings": ["dropout does nothing (node_clone in drop)"]}


def batch_norm(name):
    x, y = make_models.images(K * 8, 2, 6, 6, 3)
    refused = {"refused": "folded batch norm"}
    make(name, BatchNorm(), {"x": x, "label": y}, 8, {
        "torchscript": AGREES, "torchscript_default": refused, "dynamo": AGREES, "dynamo_default": refused,
        "dynamo_eval": {"warnings": ["batch norm was exported in inference form", "in norm"]}})


def dropout(name):
    # Random numbers differ between frameworks, so only the presence of dropout can be compared.
    active = {"differs": True, "dropouts": 1}
    make(name, Dropout(0.3), classes(K * 8, 6, 3), 8, {
        "torchscript": active, "dynamo": active, "dynamo_default": active,
        "dynamo_eval": {"differs": True, "dropouts": 0, "warnings": ["dropout does nothing (node_clone in drop)"]}})


def dropout_of_zero(name):
    # The older exporter's default file is the same as for a module without dropout.
    make(name, Dropout(0.0), classes(K * 8, 6, 3), 8, {
        "torchscript": AGREES, "torchscript_default": AGREES, "dynamo": IDLE, "dynamo_default": AGREES})


def buffers(name):
    guess = ["no parameters, and they are not trained: pe, betas", "they are trained: temperature"]
    make(name, perturbed(Attention(11, 8, 8, ("tables",))), sequences(K * 4), 4, {
        "torchscript": {"warnings": guess}, "torchscript_default": {"refused": "perhaps from parameters"},
        "dynamo": AGREES, "dynamo_default": {"refused": "computed it from 'temperature'"}})


def masks(name):
    make(name, perturbed(Attention(11, 8, 8, ("masks",))), sequences(K * 4), 4, {
        "torchscript": AGREES, "torchscript_default": MADE_UP, "dynamo": AGREES, "dynamo_default": MADE_UP})


def tied(name):
    make(name, Tied(11, 8), sequences(K * 4), 4, {
        "torchscript": AGREES, "torchscript_default": {"refused": "transposed copy of 'wte.weight'"},
        "dynamo": AGREES, "dynamo_default": {"refused": "transposed copy of 'head.weight'"}})


def equal_norms(name):
    merged = {"refused": "'norm2.weight': the exporter merged it with 'norm1.weight'"}
    make(name, Norms(), classes(K * 8, 6, 3), 8, {
        "torchscript": AGREES, "torchscript_default": merged, "dynamo": AGREES, "dynamo_default": merged})


def bce(name):
    make(name, Bce(), bits(K * 8, 6, 3), 8, dict.fromkeys(("torchscript", "torchscript_default", "dynamo", "dynamo_default"), AGREES))


def bce_pos_weight(name):
    guess = {"warnings": ["they are not trained: criterion.pos_weight"]}
    make(name, Bce(pos_weight=torch.tensor([1.0, 2.0, 3.0])), bits(K * 8, 6, 3), 8, {
        "torchscript": guess, "torchscript_default": guess, "dynamo": AGREES, "dynamo_default": AGREES})


def encoder(name):
    data = {"x": rows(K * 4, 5, 6), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Encoder(0.0), data, 4, {
        "torchscript": AGREES, "torchscript_default": {"refused": "'norm.bias': the exporter merged it with 'proj.bias'"},
        "dynamo": IDLE, "dynamo_default": {"refused": "'proj.bias': the exporter left it out"}})


def encoder_dropout(name):
    # After attention, and attention's own.
    data = {"x": rows(K * 4, 5, 6), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, perturbed(Encoder(0.2)), data, 4, {
        "torchscript": {"differs": True, "dropouts": 2}, "dynamo": {"differs": True, "dropouts": 2},
        "dynamo_default": {"differs": True, "dropouts": 1, "warnings": [*MADE_UP["warnings"], "dropout does nothing (scaled_dot_product_attention)"]}})


def dlrm(name):
    data = {"x": rows(K * 8, 3), "ids": torch.randint(0, 9, (K * 8, 2)).numpy(), "label": torch.rand(K * 8).round().numpy()}
    make(name, Dlrm(), data, 8, dict.fromkeys(("torchscript", "torchscript_default", "dynamo", "dynamo_default"), AGREES))


def lora(name):
    # Exporters do not write that a parameter is frozen.
    frozen = {"flags": "--freeze base.*"}
    make(name, Lora(), classes(K * 8, 6, 3), 8, {
        "torchscript": frozen, "torchscript_default": {**frozen, **MADE_UP}, "dynamo": frozen, "dynamo_default": {**frozen, **MADE_UP}})


def weight_norm(name):
    make(name, WeightNorm(), classes(K * 8, 6, 3), 8, {
        "torchscript": AGREES, "dynamo": AGREES,
        "dynamo_default": {"refused": "computed it from 'fc.parametrizations.weight.original0'"}})


def siamese(name):
    data = {"a": rows(K * 8, 6), "b": rows(K * 8, 6), "label": torch.rand(K * 8).round().numpy()}
    make(name, Siamese(), data, 8, dict.fromkeys(("torchscript", "torchscript_default", "dynamo", "dynamo_default"), AGREES))


def scalars(name):
    guess = {"warnings": ["they are trained: p;"]}
    make(name, Scaled(), classes(K * 8, 6, 3), 8, {
        "torchscript": guess, "torchscript_default": guess, "dynamo": AGREES,
        "dynamo_default": {"refused": "computed it from 'logit_scale'"}})


def recurrent(name, exporters, kind, **options):
    data = {"x": rows(K * 4, 4, 3), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Recurrent(kind, **options), data, 4, dict.fromkeys(exporters, AGREES))


def lstm(name):
    recurrent(name, ("torchscript", "dynamo"), nn.LSTM)


def bilstm(name):
    # (dynamo's file has a node for each gate of each step.)
    recurrent(name, ("torchscript",), nn.LSTM, num_layers=2, bidirectional=True)


def gru(name):
    recurrent(name, ("torchscript", "dynamo"), nn.GRU)


def rnn(name):
    recurrent(name, ("torchscript", "dynamo"), nn.RNN, nonlinearity="relu")


def packed(name):
    lengths = (1 + torch.arange(K * 4) * 7 % 5).reshape(K, 4).flatten().numpy()
    data = {"x": rows(K * 4, 5, 3), "lengths": lengths, "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Packed(), data, 4, {"torchscript": AGREES})


def bag(name, mode, weighted=False):
    idx = torch.randint(0, 9, (K * 6,)).numpy()
    starts = [[0, 2, 2, 3, 5, 6], [0, 0, 1, 2, 3, 4], [0, 1, 3, 3, 3, 5], [0, 1, 2, 3, 4, 5]]  # some bags are empty
    offsets = np.array([starts[k % 4] for k in range(K)]).reshape(-1)
    data = {"idx": idx, "offsets": offsets, "weights": torch.rand(K * 6).numpy(), "label": (torch.arange(K * 6) % 3).numpy()}
    make(name, Bag(mode, weighted), data, 6, {"torchscript": AGREES, "dynamo": AGREES})


def bag_sum(name):
    bag(name, "sum", weighted=True)


def bag_mean(name):
    bag(name, "mean")


def bag_max(name):
    bag(name, "max")


def bags(name, exporters=("torchscript",), modes=("sum", "mean", "max")):
    data = {"idx": torch.randint(0, 9, (K * 4, 5)).numpy(), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Bags(*modes), data, 4, dict.fromkeys(exporters, AGREES))


def bags_of_mean(name):
    # (dynamo's file has 50 KB for a bag.)
    bags(name, ("dynamo",), ("mean",))


def scripted(name):
    data = {"x": rows(K * 4, 6, 3), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Scripted(), data, 4, {"torchscript": AGREES})


def half(name):
    x, y = make_models.images(K * 8, 2, 6, 6, 3)
    note = {"warnings": ["the model is in float16: it is read, trained and saved as float32; --precision fp16 multiplies in float16"]}
    make(name, BatchNorm(), {"x": x.astype(np.float16).astype(np.float32), "label": y}, 8, {"torchscript": note, "dynamo": note}, to=torch.float16)


def brain(name):
    x = torch.randn(K * 4, 5, 6).bfloat16().float().numpy()
    note = ["in bfloat16: ", "read, trained and saved as float32; --precision bf16 multiplies in bfloat16"]
    make(name, Encoder(0.0), {"x": x, "label": (torch.arange(K * 4) % 3).numpy()}, 4, {
        "torchscript": {"warnings": note}, "dynamo": {"warnings": [*note, *IDLE["warnings"]]}}, to=torch.bfloat16)


def double(name):
    x, y = make_models.images(K * 8, 2, 6, 6, 3)
    make(name, BatchNorm(), {"x": x.astype(np.float64), "label": y}, 8, {"torchscript": AGREES, "dynamo": AGREES}, to=torch.float64)


def mixed(name):
    model = Mixed()
    with torch.no_grad():
        for p in model.fc2.parameters():
            p.copy_(p.half())
    note = {"warnings": ["parts of the model are in float16"]}
    make(name, model, classes(K * 8, 6, 3), 8, {"torchscript": note, "dynamo": note})


def pooled(name):
    data = {"idx": torch.randint(0, 9, (K * 4, 5)).numpy(), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Pooled(), data, 4, {"torchscript": AGREES, "dynamo": AGREES})


def strided(name):
    x, y = make_models.images(K * 4, 2, 6, 6, 3)
    make(name, Strided(), {"x": x.transpose(0, 2, 3, 1), "label": y}, 4, {"torchscript": AGREES, "dynamo": AGREES})


def stops(name):
    data = {"idx": torch.randint(0, 9, (K * 8, 5)).numpy(), "label": (torch.arange(K * 8) % 3).numpy()}
    make(name, Stops(), data, 8, {
        "dynamo": AGREES, "dynamo_default": {"differs": True, "warnings": ["stops gradients (detach"]}})


def stable(name):
    x = torch.randn(K * 8, 6)
    data = {"x": x.numpy(), "label": (x[:, 0] > 0).float().numpy()}
    model = Stable()
    with torch.no_grad():
        model.fc.weight.copy_(torch.tensor([[1.0, 0, 0, 0, 0, 0]]))
    make(name, model, data, 8, {"dynamo": AGREES})


def frozen_norm(name):
    frozen = {"flags": "--freeze backbone.*"}
    inference = {"flags": "--freeze backbone.* --batch-norm inference"}
    make(name, perturbed(FrozenNorm()), classes(K * 8, 6, 3), 8, {"torchscript": inference, "dynamo": frozen})


def queries(name):
    make(name, Queries(), {"x": rows(K * 8, 5, 8), "label": (torch.arange(K * 8) % 3).numpy()}, 8, {"dynamo": AGREES})


def views(name):
    make(name, Views(), {"a": rows(K * 8, 6), "b": rows(K * 8, 6)}, 8, {"dynamo": AGREES})


def ties(name):
    make(name, Ties(), classes(K * 8, 6, 3), 8, {"dynamo": AGREES})


def mixup(name):
    make(name, Mixup(), {"x": rows(K * 8, 6), "label": torch.softmax(torch.randn(K * 8, 3), 1).numpy()}, 8, {"dynamo": AGREES})


def resized(name):
    make(name, Resized(), classes(K * 8, 6, 3), 8, {"torchscript": AGREES, "dynamo": AGREES})


def filters(name):
    x, y = make_models.images(K * 8, 2, 6, 6, 3)
    kept = ["by their names or values", *(f"norm.{part}" for part in ("weight", "bias", "running_mean", "running_var")), "pos_embed"]
    make(name, perturbed(Filters()), {"x": x, "label": y}, 8, {
        "torchscript": {"flags": "--freeze blur.kernel", "warnings": kept}, "torchscript_default": {"refused": "perhaps from parameters"},
        "dynamo": AGREES})


def edges(name):
    data = bits(K * 8, 6, 3)
    data["x"][::3] = 0
    make(name, Edges(), data, 8, {"torchscript": AGREES, "torchscript_default": MADE_UP, "dynamo": AGREES})


def masked_rows(name):
    data = {"x": rows(K * 4, 5, 6), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, MaskedRows(), data, 4, {"torchscript": AGREES, "torchscript_default": MADE_UP, "dynamo": AGREES})


def scattered(name):
    data = {"x": rows(K * 4, 5, 6), "label": (torch.arange(K * 4) % 3).numpy()}
    make(name, Scattered(), data, 4, {"dynamo": AGREES})


CASES = [batch_norm, dropout, dropout_of_zero, buffers, masks, tied, equal_norms, bce, bce_pos_weight, encoder,
         encoder_dropout, dlrm, lora, weight_norm, siamese, scalars, lstm, bilstm, gru, rnn, packed,
         bag_sum, bag_mean, bag_max, bags, bags_of_mean, scripted, half, brain, double, mixed, pooled, strided,
         stops, stable, frozen_norm, queries, views, ties, mixup, resized, filters, edges, masked_rows, scattered]

if __name__ == "__main__":
    for i, c in enumerate(CASES):
        if len(sys.argv) < 2 or c.__name__ in sys.argv[1:]:
            torch.manual_seed(2000 + i)
            c(c.__name__)
