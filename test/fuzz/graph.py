"""A random ONNX graph under construction: each node is computed in float64 as it is added, so that shapes, domains and
magnitudes are known to the rules that draw the next one."""

import dataclasses
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import reference

FLOAT = TensorProto.FLOAT  # the element type of all floats until `model` says which it is
LARGEST = 30  # magnitude of a value: rounding must stay far below the tolerances
MOST_ELEMENTS = 4096


class Reject(Exception):
    """This draw cannot be used: another one is tried."""


class NoReference(Reject):
    """The reference cannot compute a node, or not in double precision."""


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor of the graph with its value for the drawn parameters and inputs. Floats are float64 here."""

    name: str
    array: np.ndarray
    constant: bool = False  # known to the compiler

    @property
    def shape(self):
        return list(self.array.shape)

    @property
    def rank(self):
        return self.array.ndim

    @property
    def kind(self):
        return "float" if self.array.dtype.kind == "f" else "bool" if self.array.dtype == bool else "int"


class Graph:
    """Values by order of definition; `draw` is Python's generator, all that is random comes from it."""

    def __init__(self, seed, opset, batch):
        self.draw = random.Random(seed)
        self.opset, self.batch = opset, batch
        self.nodes, self.pool, self.used = [], [], set()
        self.inputs, self.parameters, self.buffers, self.integers = {}, {}, {}, {}
        self.flags, self.operators = [], []
        self.counter = 0

    # Undoing what a rejected draw has added.
    def mark(self):
        sizes = [len(x) for x in (self.nodes, self.pool, self.inputs, self.parameters, self.buffers, self.integers)]
        return sizes, set(self.used), list(self.flags)

    def undo(self, mark):
        sizes, self.used, self.flags = mark
        del self.nodes[sizes[0] :]
        del self.pool[sizes[1] :]
        for table, size in zip((self.inputs, self.parameters, self.buffers, self.integers), sizes[2:]):
            for name in list(table)[size:]:
                del table[name]

    # Drawing.
    def chance(self, probability):
        return self.draw.random() < probability

    def of(self, *choices):
        return self.draw.choice(choices)

    def between(self, low, high):
        return self.draw.randint(low, high)

    def size(self):
        return self.of(1, 2, 2, 3, 4, 4, 5, 6, 8)

    def axis(self, value, first=0):
        """An axis of a value from `first` on, at times counted from the end."""
        if value.rank <= first:
            raise Reject
        axis = self.between(first, value.rank - 1)
        return axis - value.rank if self.chance(0.3) else axis

    def axes(self, value):
        """Some axes, in order, each once."""
        chosen = sorted(self.draw.sample(range(value.rank), self.between(1, value.rank))) if value.rank else []
        return [a - value.rank if self.chance(0.2) else a for a in chosen]

    def normal(self, shape, scale=0.7):
        numbers = np.array([self.draw.gauss(0, scale) for _ in range(int(np.prod(shape)))], np.float32)
        return numbers.reshape(shape).astype(np.float64)

    def whole(self, shape, low, high):
        """Integers from low to high - 1."""
        numbers = [self.draw.randrange(low, high) for _ in range(int(np.prod(shape)))]
        return np.array(numbers, np.int64).reshape(shape)

    # Sources.
    def fresh(self, what):
        self.counter += 1
        return f"{what}_{self.counter}"

    def keep(self, value):
        self.pool.append(value)
        return value

    def input(self, tail=None, array=None):
        """A new input, whose first dimension is the batch."""
        if array is None:
            tail = [self.size() for _ in range(self.between(1, 3))] if tail is None else tail
            array = self.normal([self.batch, *tail])
        name = self.fresh("input")
        self.inputs[name] = array
        return self.keep(Value(name, array))

    def parameter(self, shape, kind="weight", scale=0.7, array=None):
        if int(np.prod(shape)) > MOST_ELEMENTS:
            raise Reject
        self.counter += 1
        name = f"layers.{self.counter}.{kind}"
        self.parameters[name] = self.normal(shape, scale) if array is None else array
        return Value(name, self.parameters[name])

    def buffer(self, array, kind):
        """A float tensor that is not trained."""
        self.counter += 1
        name = f"layers.{self.counter}.{kind}"
        self.buffers[name] = array
        return Value(name, array)

    def constant(self, array, dtype=None):
        """A constant for the compiler: a Constant node, or an initializer of integers."""
        array = np.asarray(array)
        if dtype is not None:
            array = array.astype(dtype)
        if array.dtype.kind in "iu" and self.chance(0.5):
            name = self.fresh("integers")
            self.integers[name] = array
            return Value(name, array, True)
        stored = array.astype(np.float32) if array.dtype.kind == "f" else array
        return self.add("Constant", value=numpy_helper.from_array(stored, self.fresh("constant")), keep=False)

    def scalar(self, number):
        return self.constant(np.float64(np.float32(number)))

    def dims(self, sizes):
        return self.constant(np.array(sizes, np.int64))

    # Existing values.
    def pick(self, kind="float", rank=None, least=0, most=6):
        """A value of a kind and rank, mostly a recent one; floats and integers are made where there are none."""
        least, most = (rank, rank) if rank is not None else (least, most)
        fits = [v for v in self.pool if v.kind == kind and least <= v.rank <= most and not v.constant]
        if fits and self.chance(0.85):
            value = fits[max(self.between(0, len(fits) - 1), self.between(0, len(fits) - 1))]
            self.used.add(value.name)
            return value
        rank = self.between(max(least, 1), max(min(most, 4), least, 1))
        shape = [self.size() for _ in range(rank - 1)]
        if int(np.prod(shape)) * self.batch > MOST_ELEMENTS // 4:
            raise Reject
        if kind == "float":
            value = self.input(shape)
        elif kind == "int":
            value = self.input(array=self.whole([self.batch, *shape], -5, 6))
        else:
            value = self.add("Greater", self.pick(least=least, most=most), self.scalar(0.1))
        self.used.add(value.name)
        return value

    def near(self, value):
        """A value that broadcasts with another one: another value, a parameter, a constant."""
        fits = [v for v in self.pool if v.kind == "float" and broadcasts(v.shape, value.shape)]
        if fits and self.chance(0.4):
            other = self.draw.choice(fits)
            self.used.add(other.name)
            return other
        shape = value.shape[self.between(0, value.rank) :] if self.chance(0.6) else value.shape
        shape = [1 if self.chance(0.25) else s for s in shape]
        if len(shape) == value.rank and value.rank and shape[0] == self.batch and self.chance(0.7):
            shape[0] = 1  # a parameter with the batch's size prevents microbatches
        if self.chance(0.1):
            shape = [1, *shape] if len(shape) == value.rank and value.rank < 5 else shape
        return self.parameter(shape, self.of("weight", "bias")) if self.chance(0.75) else self.constant(self.normal(shape))

    # Nodes.
    def add(self, operator, *inputs, outputs=1, keep=True, **attributes):
        """Adds a node and computes it: its value, or a list of them."""
        names = [i.name if i is not None else "" for i in inputs]
        while names and not names[-1]:
            names.pop()
        results = [self.fresh(operator.lower()) for _ in range(outputs)]
        path = self.module_of(names)
        attributes = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(operator, names, results, f"{path}/{operator}_{self.counter}", **attributes)
        values = {i.name: i.array for i in inputs if i is not None}
        try:
            arrays = reference.run_node(node, values, self.opset)
        except Exception as error:  # any exception of the package for an unsupported case
            raise NoReference(f"{operator}: {type(error).__name__}") from error
        known = all(i is None or i.constant for i in inputs)
        if any(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in arrays):
            raise NoReference(f"{operator}: in float32")
        new = [Value(name, array, known) for name, array in zip(results, arrays)]
        for value in new:
            check(value)
        self.nodes.append(node)
        self.used.update(names)
        if keep:
            self.pool += [v for v in new if isinstance(v.array, np.ndarray)]
        return new if outputs > 1 else new[0]

    def branch(self, condition, value, left, right):
        """An If between two graphs that read `value`."""
        results = [self.fresh("if")]
        node = helper.make_node("If", [condition.name], results, f"/layers.{self.counter}/If", then_branch=left, else_branch=right)
        chosen = (left if condition.array else right).node[0].op_type
        (array,) = reference.run_node(helper.make_node(chosen, [value.name], results), {value.name: value.array}, self.opset)
        self.nodes.append(node)
        self.used |= {condition.name, value.name}
        return self.keep(Value(results[0], array))

    def module_of(self, names):
        """The scope of a node, as exporters name it after the module whose parameters it uses."""
        for name in names:
            if name in self.parameters or name in self.buffers:
                return "/" + name.rsplit(".", 1)[0]
        return f"/layers.{self.counter}"

    # The whole.
    def finish(self):
        """Adds a scalar loss of all values without uses."""
        terms = []
        for value in [v for v in self.pool if v.name not in self.used]:
            if value.array.size == 0 or value.constant:
                continue
            if value.kind != "float":
                value = self.add("Cast", value, to=FLOAT)
            if value.array.size > 1 and self.chance(0.8):
                value = self.add("Mul", value, self.constant(self.normal(value.shape, 1)))
            if self.chance(0.3):
                value = self.add("Mul", value, value)
            mean = self.chance(0.7)
            keepdims = {"keepdims": 0}
            terms.append(self.add("ReduceMean" if mean else "ReduceSum", value, **keepdims) if value.rank else value)
        if not terms or not self.parameters:
            raise Reject
        loss = terms[0]
        for term in terms[1:]:
            loss = self.add("Add", loss, term)
        self.nodes.append(helper.make_node("Identity", [loss.name], ["loss"], "/loss"))
        return loss.array

    def model(self, double=False, batch=None):
        """The model in float or double; `batch` is a name for the inputs' first dimension, whose size --dim says then."""
        info = lambda name, array: helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(stored(array).dtype), [batch or self.batch, *array.shape[1:]]
        )
        weights = {**self.parameters, **self.buffers, **self.integers}
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [info(n, a) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info("loss", FLOAT, [])],
            [numpy_helper.from_array(stored(a), n) for n, a in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="fuzz")
        model.ir_version = min(10, onnx.IR_VERSION)
        return reference.in_double(model) if double else model


def stored(array):
    """The value after storing it in single precision."""
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def broadcasts(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


def check(value):
    """Rejects values for which comparisons would be meaningless."""
    array = value.array
    if not isinstance(array, np.ndarray):
        return
    if array.size > MOST_ELEMENTS or array.ndim > 6:
        raise Reject
    if array.dtype.kind == "f" and array.size and not np.all(np.abs(array) <= LARGEST):  # NaN, too
        raise Reject
