#!/usr/bin/env python3
"""Models with a training_info (ONNX's TrainingInfoProto): the loss, the optimizer, what trains and the optimizer's state are those of
the file, and `--save` writes a file from which training goes on.

    training_info.py --divisi PATH

The updates are compared with the operators of ai.onnx.preview.training in ONNX's reference evaluator, of which gradients are computed
in double. Needs numpy and onnx. Ends with `N passed, N failed`.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import cases

DOMAIN = "ai.onnx.preview.training"
DIVISI = ""
ROWS, BATCHES, RATE = 4, 6, 0.05
WEIGHTS = ["w1", "b1", "w2"]  # that train; w0 does not

# Operator, attributes, names of the states of a tensor, whether it gets the count that is increased already.
OPTIMIZERS = {
    "descent": (None, {}, [], False),
    "momentum": ("Momentum", {"alpha": 0.9, "beta": 1.0, "norm_coefficient": 0.01, "mode": "standard"}, ["v"], False),
    "nesterov": ("Momentum", {"alpha": 0.8, "beta": 0.5, "norm_coefficient": 0.0, "mode": "nesterov"}, ["v"], False),
    "without memory": ("Momentum", {"alpha": 0.0, "beta": 0.25, "norm_coefficient": 0.0, "mode": "standard"}, ["v"], False),
    "adagrad": ("Adagrad", {"epsilon": 1e-5, "decay_factor": 0.1, "norm_coefficient": 0.02}, ["h"], False),
    "adagrad, defaults": ("Adagrad", {}, ["h"], False),
    "adam": ("Adam", {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-3, "norm_coefficient": 0.01}, ["v", "h"], False),
    "adam, counted before": ("Adam", {"epsilon": 1e-3, "norm_coefficient_post": 0.01}, ["v", "h"], True),
}


def run(*words, code=0):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"exit {done.returncode}: {(done.stderr or done.stdout)[-600:]}"
    return done


def node(operator, inputs, outputs, domain="", **attributes):
    return helper.make_node(operator, inputs, outputs, name="/".join(["train", operator, outputs[0]]), domain=domain, **attributes)


def initial():
    random = np.random.default_rng(7)
    shapes = {"w0": (3, 3), "w1": (5, 3), "b1": (5,), "w2": (2, 5)}
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def states_of(kind):
    return [f"{name}.{state}" for state in OPTIMIZERS[kind][2] for name in WEIGHTS]


def make(kind, path, values, count=0, states=None, count_shape=(), edit=None):
    """Writes the model: tanh(x w0 w1^T + b1) w2^T, its squared error and its optimizer in a training_info."""
    operator, attributes, kinds, counted = OPTIMIZERS[kind]
    states = states or {name: np.zeros_like(values[name.split(".")[0]]) for name in states_of(kind)}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w0"], ["m"]),
            node("Gemm", ["m", "w1", "b1"], ["a"], transB=1),
            node("Tanh", ["a"], ["h"]),
            node("Gemm", ["h", "w2"], ["p"], transB=1),
        ],
        "model",
        [info("x", TensorProto.FLOAT, (ROWS, 3))],
        [info("p", TensorProto.FLOAT, (ROWS, 2))],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    gradients = [f"{name}.g" for name in WEIGHTS]
    nodes = [
        node("Sub", ["p", "t"], ["d"]),
        node("Mul", ["d", "d"], ["square"]),
        node("ReduceMean", ["square"], ["loss"], keepdims=0),
        node("Gradient", [*WEIGHTS, "x"], gradients, DOMAIN, xs=WEIGHTS, zs=["x"], y="loss"),
        node("Add", ["T", "one"], ["T_new"]),
    ]
    new = lambda name: f"{name}.new"
    if operator is None:
        for name in WEIGHTS:
            nodes += [node("Mul", ["R", f"{name}.g"], [f"{name}.r"]), node("Sub", [name, f"{name}.r"], [new(name)])]
    else:
        tensors = [*WEIGHTS, *states]
        inputs = ["R", "T_new" if counted else "T", *WEIGHTS, *gradients, *states]
        nodes.append(node(operator, inputs, [new(name) for name in tensors], DOMAIN, **attributes))
    bound = [*WEIGHTS, *states]
    algorithm = helper.make_graph(
        nodes,
        "step",
        [info("t", TensorProto.FLOAT, (ROWS, 2))],
        [info(new(name), TensorProto.FLOAT, None) for name in bound] + [info("T_new", TensorProto.INT64, None)],
        [
            numpy_helper.from_array(np.float32(RATE), "R"),
            numpy_helper.from_array(np.full(count_shape, count, np.int64), "T"),
            numpy_helper.from_array(np.int64(1), "one"),
            *[numpy_helper.from_array(value, name) for name, value in states.items()],
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=8)
    step = model.training_info.add()
    step.algorithm.CopyFrom(algorithm)
    for name in bound:
        step.update_binding.add(key=name, value=new(name))
    step.update_binding.add(key="T", value="T_new")
    if edit:
        edit(model)
    onnx.save(model, path)


def data(folder):
    random = np.random.default_rng(3)
    x, t = (random.normal(size=(ROWS * BATCHES, width)).astype(np.float32) for width in (3, 2))
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", t)
    return x, t


def gradients_of(values, x, t):
    """Of the mean squared error, in double."""
    w = {name: value.astype(np.float64) for name, value in values.items()}
    m = x.astype(np.float64) @ w["w0"]
    h = np.tanh(m @ w["w1"].T + w["b1"])
    d = 2 * (h @ w["w2"].T - t) / t.size
    a = (d @ w["w2"]) * (1 - h * h)
    return {"w1": a.T @ m, "b1": a.sum(0), "w2": d.T @ h}


def expected(kind, values, x, t, steps, count=0, states=None):
    """Trains by ONNX's reference evaluator."""
    operator, attributes, kinds, counted = OPTIMIZERS[kind]
    values = dict(values)
    states = dict(states) if states else {name: np.zeros_like(values[name.split(".")[0]]) for name in states_of(kind)}
    for step in range(steps):
        rows = slice(step % BATCHES * ROWS, (step % BATCHES + 1) * ROWS)
        gradients = gradients_of(values, x[rows], t[rows])
        for name in WEIGHTS:
            gradient = gradients[name].astype(np.float32)
            if operator is None:
                values[name] = values[name] - np.float32(RATE) * gradient
                continue
            own = [f"{name}.{state}" for state in kinds]
            inputs = {"R": np.float32(RATE), "T": np.int64(count + step + counted), "X": values[name], "G": gradient}
            inputs |= {s: states[s] for s in own}
            infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
            outputs = ["X_new", *[f"{s}_new" for s in own]]
            one = helper.make_graph(
                [helper.make_node(operator, list(inputs), outputs, domain=DOMAIN, **attributes)],
                "update",
                infos,
                [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
            )
            model = helper.make_model(one, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=8)
            values[name], *renewed = (array.astype(np.float32) for array in ReferenceEvaluator(model).run(None, inputs))
            states |= dict(zip(own, renewed))
    return values, states, count + steps


def train(folder, model, steps, *flags, devices=1, name="program", run_flags=()):
    """Compiles and trains a model; returns the path of the saved one."""
    run(DIVISI, "compile", folder / model, "-o", folder / name, *flags)
    saved = folder / f"{name}.saved.onnx"
    launcher = [DIVISI, "run", "--devices", devices] if devices > 1 else []
    run(*launcher, folder / name, "--data", f"x={folder / 'x.npy'}", "--data", f"t={folder / 't.npy'}", "--no-shuffle", "--steps", steps, "--quiet",
        "--save", saved, *run_flags)
    return saved


def read(path):
    model = onnx.load(path)
    onnx.checker.check_model(model)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    algorithm = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.training_info[0].algorithm.initializer}
    return model, weights, algorithm


def near(name, got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, f"{name}: {got.dtype} {got.shape}, not {wanted.dtype} {wanted.shape}"
    off = float(np.max(np.abs(got - wanted) / (1e-3 + np.abs(wanted))))
    assert off <= 2e-5, f"{name} differs by {off:.2g}"
    return off


def compare(path, values, states, count):
    _, weights, algorithm = read(path)
    assert set(weights) == set(values), f"the model's initializers are {sorted(weights)}"
    off = max(near(name, weights[name], value) for name, value in values.items())
    off = max([off, *(near(name, algorithm[name], value) for name, value in states.items())])
    assert algorithm["T"] == count, f"T is {algorithm['T']}, not {count}"
    return f"weights, states and count differ by {off:.1g} at most"


# Cases.


def follows_the_optimizer(folder):
    x, t = data(folder)
    for kind in OPTIMIZERS:
        make(kind, folder / "m.onnx", initial())
        yield f"{kind}: " + compare(train(folder, "m.onnx", 5), *expected(kind, initial(), x, t, 5))


def starts_with_the_state_of_the_file(folder):
    """States and count that are not zero."""
    x, t = data(folder)
    random = np.random.default_rng(11)
    for kind in OPTIMIZERS:
        states = {name: random.uniform(0.1, 0.3, initial()[name.split(".")[0]].shape).astype(np.float32) for name in states_of(kind)}
        make(kind, folder / "m.onnx", initial(), 12, states, (1,))
        yield f"{kind}: " + compare(train(folder, "m.onnx", 3), *expected(kind, initial(), x, t, 3, 12, states))


def goes_on_from_a_saved_model(folder):
    """Two runs of one epoch, the second one of the model that the first one saved, are one run of two epochs, bit for bit."""
    data(folder)
    for kind in ["descent", "nesterov", "adagrad", "adam, counted before"]:
        make(kind, folder / "m.onnx", initial())
        whole = read(train(folder, "m.onnx", 2 * BATCHES, name="whole"))
        train(folder, "m.onnx", BATCHES, name="first").rename(folder / "half.onnx")
        model, weights, algorithm = read(train(folder, "half.onnx", BATCHES, name="second"))
        for before, after in ((whole[1], weights), (whole[2], algorithm)):
            assert set(before) == set(after), f"{sorted(before)} and {sorted(after)}"
            for name, value in before.items():
                assert np.array_equal(value, after[name]), f"{kind}: {name} differs"
        for part in ("node", "input", "output"):
            assert getattr(whole[0].training_info[0].algorithm, part) == getattr(model.training_info[0].algorithm, part), part
        assert whole[0].training_info[0].update_binding == model.training_info[0].update_binding
        yield f"{kind}: equal, T = {algorithm['T']}"


def is_equal_on_two_devices(folder):
    x, t = data(folder)
    kind = "adam"
    make(kind, folder / "m.onnx", initial())
    wanted = expected(kind, initial(), x, t, 5)
    for way in (["--strategy", "data"], ["--mesh", "data=2", "--zero", "1"], ["--strategy", "pipeline", "--microbatches", "2"], ["--sync", "server"]):
        flags = ["--devices", 2, *way] if "--mesh" not in way else way
        yield " ".join(way) + ": " + compare(train(folder, "m.onnx", 5, *flags, devices=2), *wanted)


def resumes_from_a_checkpoint(folder):
    data(folder)
    make("adam", folder / "m.onnx", initial(), 5)
    whole = read(train(folder, "m.onnx", 8, name="whole"))
    checkpoints = ("--checkpoint", folder / "points")
    train(folder, "m.onnx", 3, name="program", run_flags=checkpoints)
    path = folder / "program.resumed.onnx"
    run(folder / "program", "--data", f"x={folder / 'x.npy'}", "--data", f"t={folder / 't.npy'}", "--no-shuffle", "--steps", 8, "--quiet", "--save",
        path, *checkpoints, "--resume")
    for before, after in zip(whole[1:], read(path)[1:]):
        for name, value in before.items():
            assert np.array_equal(value, after[name]), f"{name} differs"
    return "equal to an uninterrupted run"


def resumes_in_a_program_of_a_saved_model(folder):
    """A checkpoint of a program that began at a count goes on in a program that is compiled from a model saved later."""
    data(folder)
    make("adam", folder / "m.onnx", initial(), 5)
    whole = read(train(folder, "m.onnx", 8, name="whole"))
    checkpoints = ("--checkpoint", folder / "points")
    train(folder, "m.onnx", 3, name="first", run_flags=checkpoints).rename(folder / "later.onnx")
    _, weights, algorithm = read(train(folder, "later.onnx", 8, name="second", run_flags=(*checkpoints, "--resume")))
    assert algorithm["T"] == 13 and all(np.array_equal(value, weights[name]) for name, value in whole[1].items())
    return "equal to an uninterrupted run"


def averages_begin_at_the_weights(folder):
    """--ema 0.5 after two steps, in a program that begins at a count: (w0 + w1 + 2 w2) / 4, with the file's weights as w0."""
    data(folder)
    make("momentum", folder / "m.onnx", initial(), 7)
    one = read(train(folder, "m.onnx", 1))[1]
    two = read(train(folder, "m.onnx", 2))[1]
    _, weights, _ = read(train(folder, "m.onnx", 2, "--ema", "0.5", run_flags=("--ema",)))
    off = max(near(name, weights[name], (initial()[name] + one[name] + 2 * two[name]) / 4) for name in WEIGHTS)
    return f"differ by {off:.1g} at most"


def counts_in_every_mode(folder):
    """T after some steps with the file's weights, and with others, which begin at 0."""
    data(folder)
    make("adam", folder / "m.onnx", initial(), 12)
    for way in (["--sync", "server"], ["--sync", "local", "--average-every", 2], ["--sync", "gossip"], ["--sync", "gossip", "--asynchronous"]):
        run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", "--devices", 2, *way)
        counts = []
        for more in ([], ["--init", 3]):
            saved = folder / "saved.onnx"
            run(DIVISI, "run", "--devices", 2, folder / "program", "--data", f"x={folder / 'x.npy'}", "--data", f"t={folder / 't.npy'}", "--steps", 6,
                "--quiet", "--save", saved, *more)
            counts.append(int(read(saved)[2]["T"]))
        assert counts == [18, 6], f"{way}: {counts}"
    return "18, and 6 with --init"


def follows_flags_first(folder):
    x, t = data(folder)
    make("adam", folder / "m.onnx", initial())
    wanted, _, _ = expected("descent", initial(), x, t, 4)
    _, weights, algorithm = read(train(folder, "m.onnx", 4, "--optimizer", "sgd", "--lr", RATE))
    off = max(near(name, weights[name], value) for name, value in wanted.items())
    assert algorithm["T"] == 0 and not algorithm["w1.v"].any(), "the state of an optimizer that was not followed has changed"
    make("descent", folder / "m.onnx", initial())
    _, weights, _ = read(train(folder, "m.onnx", 4, "--lr", 0, "--freeze", "b1"))
    assert all(np.array_equal(weights[name], value) for name, value in initial().items()), "a rate of 0 changed weights"
    yield f"--optimizer sgd differs from descent by {off:.1g} at most; --lr 0 changes nothing"
    said = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", "--loss", "mse", "--label", "y").stderr
    assert "training_info" in said and "--loss" in said, said
    yield "--loss: a warning"
    said = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", "--weight-decay", "0.1").stderr
    assert "its optimizer with state and learning rate is not followed" in said, said
    yield "--weight-decay: a note"


def keeps_statistics_that_are_not_bound(folder):
    """Batch norm's running statistics, of which one is bound."""
    x, _ = data(folder)

    def edit(model):
        graph = model.graph
        values = {"scale": np.ones(3), "bias": np.zeros(3), "mean": np.full(3, 0.25), "var": np.full(3, 2.0)}
        graph.initializer.extend(numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items())
        names = ["z", "scale", "bias", "mean", "var"]
        norm = node("BatchNormalization", names, ["m", "mean.new", "var.new"], momentum=0.5, training_mode=1)
        graph.node[0].output[0] = "z"
        graph.node.insert(1, norm)
        graph.output.append(helper.make_tensor_value_info("mean.new", TensorProto.FLOAT, [3]))
        model.training_info[0].update_binding.add(key="mean", value="mean.new")

    make("descent", folder / "m.onnx", initial(), edit=edit)
    _, weights, _ = read(train(folder, "m.onnx", 1))
    near("mean", weights["mean"], 0.5 * np.full(3, 0.25, np.float32) + 0.5 * (x[:ROWS] @ initial()["w0"]).mean(0))
    assert np.all(weights["var"] == 2), weights["var"]
    return "renewed and kept"


def initialises_as_the_file_says(folder):
    data(folder)

    def edit(model, last=None):
        step = model.training_info[0]
        nodes = [
            node("RandomUniform", [], ["u"], low=2.0, high=3.0, shape=[5, 3]),
            node("RandomNormal", [], ["n"], mean=-7.0, scale=0.25, shape=[2, 5]),
            node("Constant", [], ["c"], value=numpy_helper.from_array(np.full((5,), 0.5, np.float32))),
            node("Identity", ["c"], ["other"]),
        ]
        nodes.append(node("Constant", [], ["zero"], value=numpy_helper.from_array(np.int64(0))))
        nodes.append(node("ConstantOfShape", ["five"], ["h"], value=numpy_helper.from_array(np.array([0.1], np.float32))))
        step.initialization.CopyFrom(helper.make_graph(nodes, "start", [], [onnx.ValueInfoProto(name=name) for name in ("u", "n", "c", "other", "zero", "h")],
                                                       [numpy_helper.from_array(np.array([5]), "five")]))
        for key, value in (("w1", "u"), ("w2", "n"), ("b1", "c"), ("w0", "other"), ("T", "zero"), ("b1.h", "h"))[:last]:
            step.initialization_binding.add(key=key, value=value)

    make("adagrad", folder / "m.onnx", initial(), 9, edit=edit)
    compiled = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program")
    assert "initial values of w0 in a way" in compiled.stderr, compiled.stderr
    _, weights, algorithm = read(train(folder, "m.onnx", 1, "--lr", 0, run_flags=("--init", 5)))
    assert np.all((2 <= weights["w1"]) & (weights["w1"] < 3)) and np.ptp(weights["w1"]) > 0.5, weights["w1"]
    assert abs(weights["w2"].mean() + 7) < 0.4 and 0.1 < weights["w2"].std() < 0.5, weights["w2"]
    assert np.all(weights["b1"] == 0.5) and np.array_equal(weights["w0"], initial()["w0"])
    assert algorithm["T"] == 1, "--init keeps the file's count"
    make("adagrad", folder / "m.onnx", initial(), 9, edit=lambda model: edit(model, -1))
    _, _, from_zero = read(train(folder, "m.onnx", 1, "--lr", 0, run_flags=("--init", 5)))
    near("b1.h", algorithm["b1.h"], from_zero["b1.h"] + np.float32(0.1))
    return "uniform, normal and constant"


def is_told_by_list_parameters(folder):
    make("adam", folder / "m.onnx", initial())
    said = run(DIVISI, "compile", folder / "m.onnx", "--list-parameters").stdout
    assert "training_info updates it" in said and "training_info does not update it" in said, said
    return "names what trains"


def refuses_an_edited_dump(folder):
    make("adam", folder / "m.onnx", initial())
    dump = run(DIVISI, "compile", folder / "m.onnx", "--emit", "graph").stdout
    beta1 = "beta1 = 0.80000001192092896 : f64"
    edits = [(beta1, "beta1 = 2.0 : f64"), (beta1, "beta1 = 7 : i64"), ('optimizer = "onnx-adam"', 'optimizer = "other"'), ("lr = 0.05", "lr = -0.05")]
    for before, after in edits:
        assert before in dump, f"{before}: {dump[:600]}"
        (folder / "m.mlir").write_text(dump.replace(before, after))
        said = run(DIVISI, "compile", folder / "m.mlir", "-o", folder / "program", code=1).stderr
        assert "graph.optimizer" in said, said
    return f"{len(edits)} dumps"


def refuses_what_it_cannot_follow(folder):
    def optimizer_gets(index, name):
        def edit(model):
            model.training_info[0].algorithm.node[-1].input[index] = name

        return edit

    def clipped(model):
        nodes = model.training_info[0].algorithm.node
        nodes.insert(4, node("Clip", ["w1.g"], ["clipped"]))
        nodes[-1].input[5] = "clipped"

    def several_losses(model):
        nodes = model.training_info[0].algorithm.node
        nodes.insert(4, node("Gradient", ["w1"], ["other"], DOMAIN, xs=["w1"], y="square"))

    def elsewhere(model):
        model.training_info[0].algorithm.node[3].input[0] = "w0"

    def two_tensors(model):
        optimizer_gets(3, "w1")(model)
        kept = [b for b in model.training_info[0].update_binding if b.key != "b1"]
        del model.training_info[0].update_binding[:]
        model.training_info[0].update_binding.extend(kept)

    def renewed_loss(model):
        nodes = model.training_info[0].algorithm.node
        nodes[2].output[0] = "mean"
        nodes.insert(3, node("Cast", ["T"], ["t.float"], to=TensorProto.FLOAT))
        nodes.insert(4, node("Add", ["mean", "t.float"], ["loss"]))

    def own_add(model):
        model.training_info[0].algorithm.node[4].domain = "custom"
        model.opset_import.append(helper.make_opsetid("custom", 1))
        body = [helper.make_node("Sub", ["a", "b"], ["c"])]
        model.functions.append(helper.make_function("custom", "Add", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)]))

    def intermediate(model):
        gradient = model.training_info[0].algorithm.node[3]
        gradient.input[3] = "h"
        next(a for a in gradient.attribute if a.name == "zs").strings[0] = b"h"

    def twice(model):
        model.training_info[0].algorithm.initializer.append(numpy_helper.from_array(np.zeros((2, 5), np.float32), "w2"))

    def not_reduced(model):
        model.training_info[0].algorithm.node[2].CopyFrom(node("Identity", ["square"], ["loss"]))

    def unbound(model):
        kept = [b for b in model.training_info[0].update_binding if b.key != "w1.v"]
        del model.training_info[0].update_binding[:]
        model.training_info[0].update_binding.extend(kept)

    def bind(key, value):
        return lambda model: model.training_info[0].update_binding.add(key=key, value=value)

    def negative(model):
        next(i for i in model.training_info[0].algorithm.initializer if i.name == "T").CopyFrom(numpy_helper.from_array(np.int64(-3), "T"))

    def reshaped(model):
        state = next(i for i in model.training_info[0].algorithm.initializer if i.name == "w1.v")
        state.CopyFrom(numpy_helper.from_array(np.zeros(15, np.float32), "w1.v"))

    refusals = [
        (clipped, "'clipped', which is not its gradient"),
        (unbound, "state 'w1.v' is not renewed by update_binding"),
        (bind("w9", "w1.new"), "'w9', which is no initializer"),
        (bind("w1", "w1.new"), "'w1' twice"),
        (bind("w0", "w1.new"), "'w0' with the new value of another tensor"),
        (bind("w0", "square"), "neither an optimizer"),
        (bind("w0", "nothing"), "does not compute"),
        (negative, "'T' is -3"),
        (reshaped, "is not of the type of 'w1'"),
        (optimizer_gets(0, "loss"), "'loss' is not a constant"),
        (optimizer_gets(1, "one"), "'one' does not count updates"),
        (elsewhere, "takes gradients at other values"),
        (lambda model: model.training_info.add().CopyFrom(model.training_info[0]), "2 training steps"),
        (lambda model: model.training_info[0].algorithm.node.pop(3), "has no Gradient node"),
        (several_losses, "several losses"),
        (not_reduced, "not a floating-point scalar"),
        (two_tensors, "which another tensor or state of an optimizer is, too"),
        (renewed_loss, "reads 'T', which update_binding renews"),
        (own_add, "'T' is renewed by node 'train/Add/T_new' (custom.Add)"),
        (intermediate, "names 'h' in xs or zs"),
        (twice, "'w2' is the name of two values"),
    ]
    for edit, text in refusals:
        make("adam", folder / "m.onnx", initial(), edit=edit)
        said = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", code=1).stderr
        assert text in said and said.startswith("error: ") and len(said.splitlines()) == 1, f"{text}: {said}"
    make("adam", folder / "m.onnx", initial())
    (folder / "m.onnx").write_bytes((folder / "m.onnx").read_bytes().replace(b"w1.h", b"\xff\xff\xff\xff"))
    said = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", code=1).stderr
    assert "is not UTF-8" in said, said
    make("momentum", folder / "m.onnx", initial(), edit=lambda model: model.training_info[0].algorithm.node[-1].attribute.pop(0))
    said = run(DIVISI, "compile", folder / "m.onnx", "-o", folder / "program", code=1).stderr
    assert "lacks the attribute 'alpha'" in said, said
    return f"{len(refusals) + 2} files"


def main():
    global DIVISI
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisi", required=True)
    parser.add_argument("--only", help="cases whose names contain this text")
    options = parser.parse_args()
    DIVISI = str(pathlib.Path(options.divisi).resolve())
    chosen = [
        follows_the_optimizer,
        starts_with_the_state_of_the_file,
        goes_on_from_a_saved_model,
        is_equal_on_two_devices,
        resumes_from_a_checkpoint,
        resumes_in_a_program_of_a_saved_model,
        averages_begin_at_the_weights,
        counts_in_every_mode,
        refuses_an_edited_dump,
        follows_flags_first,
        keeps_statistics_that_are_not_bound,
        initialises_as_the_file_says,
        is_told_by_list_parameters,
        refuses_what_it_cannot_follow,
    ]
    return cases.run([c for c in chosen if not options.only or options.only in c.__name__], lambda case, folder: case(folder))


if __name__ == "__main__":
    sys.exit(main())
