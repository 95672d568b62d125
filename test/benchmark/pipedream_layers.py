"""Profiles of layers for pipedream_papers.py: PipeDream's graph.txt at another minibatch, S2VT from its dimensions; and the
costs of docs/pipelines.md, counted apart from the compiler."""

import heapq
import re
import typing

PAPER, CODE = "paper", "code"


class Layer(typing.NamedTuple):
    name: str
    forward: float  # ms
    backward: float  # ms
    activation: float  # bytes of the output
    weights: float  # bytes
    inputs: list  # positions in the list of layers


def read(text, times=1.0, minibatch=1.0):
    """Layers of a graph.txt in topological order. `minibatch` multiplies times and activations, `times` times alone. As
    in PipeDream's optimizer, inputs and items of tuples that nothing uses are left out."""
    node = re.compile(r"(\S+) -- (\w+).*? -- forward_compute_time=(\S+), backward_compute_time=(\S+), "
                      r"activation_size=(\[.*?\]|\S+), parameter_size=(\S+)")
    nodes, edges = {}, []
    for line in text.splitlines():
        if line.startswith("\t"):
            edges.append(line.strip().split(" -- "))
        elif line:
            name, kind, forward, backward, bytes_, weights = node.match(line).groups()
            bytes_ = sum(float(b) for b in bytes_.strip("[]").split(";"))
            nodes[name] = (kind, float(forward) * times * minibatch, float(backward) * times * minibatch,
                           bytes_ * minibatch, float(weights))
    used = {source for source, _ in edges}
    heads = {target for _, target in edges}
    kept = [n for n, (kind, *_) in nodes.items()
            if not (kind.startswith("Input") and n not in heads) and (n in used or not kind.startswith("__getitem__"))]
    place = {n: i for i, n in enumerate(kept)}
    inputs = {n: {s for s, t in edges if t == n and s in place} for n in kept}
    ready = [place[n] for n in kept if not inputs[n]]
    heapq.heapify(ready)
    missing = {n: len(inputs[n]) for n in kept}
    order = {}
    while ready:
        name = kept[heapq.heappop(ready)]
        order[name] = len(order)
        for s, t in {(s, t) for s, t in edges if s == name and t in place}:
            missing[t] -= 1
            if missing[t] == 0:
                heapq.heappush(ready, place[t])
    return [Layer(n, *nodes[n][1:], sorted(order[i] for i in inputs[n])) for n in order]


def s2vt():
    """Sequence to sequence, video to text (Venugopalan et al., ICCV 2015): frames of 4,096 features to 500, an LSTM of
    1,000 units, a second one that also reads words of 500 dimensions, and a matmul to the vocabulary; 80 steps of 80
    sequences. 46,100 words make up the 349 MB of weights that arXiv 1806.03377 says.

    Nothing is measured: matmuls run at 60 % of the 10.97 TFLOP/s of a Titan X (Pascal), backward takes twice as long;
    words and softmax move their bytes twice forward and twice backward at 70 % of its 480 GB/s.
    """
    steps, batch, features, embedded, hidden, words = 80, 80, 4096, 500, 1000, 46100
    rows = steps * batch

    def matmul(name, inner, outer, inputs, reads=0):
        ms = 2 * rows * (inner + reads) * outer / (0.6 * 10.97e12) * 1e3
        width = hidden if reads else outer
        return Layer(name, ms, 2 * ms, 4 * rows * width, 4 * ((inner + reads) * outer + outer), inputs)

    def moved(name, values, width, weights, inputs):
        ms = 2 * 4 * values / (0.7 * 480e9) * 1e3
        return Layer(name, ms, ms, 4 * rows * width, 4 * weights, inputs)

    return [matmul("frames", features, embedded, []),
            matmul("lstm1", embedded, 4 * hidden, [0], hidden),
            moved("words", rows * embedded, embedded, words * embedded, []),
            matmul("lstm2", hidden + embedded, 4 * hidden, [1, 2], hidden),
            matmul("predict", hidden, words, [3]),
            moved("softmax", rows * words, 1, 0, [4])]


def as_json(layers):
    return {"layers": [{"name": layer.name, "forward_ms": layer.forward, "backward_ms": layer.backward,
                        "activation_bytes": layer.activation, "parameter_bytes": layer.weights,
                        "inputs": [layers[i].name for i in layer.inputs]} for layer in layers]}


def data_parallel_ms(layers, levels):
    """Milliseconds a minibatch of data parallelism, for levels (size, bytes/s) from the inside out: all devices compute,
    then synchronise level by level, once for a minibatch of each device (as PipeDream's optimizer counts two levels)."""
    weights = sum(layer.weights for layer in layers)
    ms, devices = sum(layer.forward + layer.backward for layer in layers), 1
    for size, bandwidth in levels:
        ms += 4 * (size - 1) / size * weights / bandwidth * 1e3
        devices *= size
    return ms / devices


class Cuts:
    """Stages between places in the order of the layers, on equal devices that one bandwidth connects."""

    def __init__(self, layers, bandwidth, cost):
        self.bandwidth, self.cost = bandwidth, cost
        self.ms, self.weights, self.crossing = [0.0], [0.0], [0.0]
        last = {}
        for i, layer in enumerate(layers):
            for source in layer.inputs:
                last[source] = i
        for i, layer in enumerate(layers):
            self.ms.append(self.ms[-1] + layer.forward + layer.backward)
            self.weights.append(self.weights[-1] + layer.weights)
            crossing = sum(other.activation for j, other in enumerate(layers[:i + 1]) if last.get(j, -1) > i)
            self.crossing.append(2 * crossing / bandwidth * 1e3 if cost == PAPER else 0.0)

    def stage(self, start, end, replicas):
        ms = self.ms[end] - self.ms[start]
        weights = self.weights[end] - self.weights[start]
        sync = 4 * (replicas - 1) / replicas * weights / self.bandwidth * 1e3
        return (max(ms, sync) if self.cost == PAPER else ms + sync) / replicas

    def price(self, replicas):
        """The least slowest stage, or cut, of stages with these numbers of replicas."""
        count = len(self.ms)
        best = [0.0] + [float("inf")] * (count - 1)
        for m in replicas:
            best = [min((max(best[start], self.crossing[start], self.stage(start, end, m)) for start in range(end)),
                        default=float("inf")) for end in range(count)]
        return best[-1]

    def least(self, devices):
        """The same over all stages and numbers of replicas: the recurrence of the paper."""
        count = len(self.ms)
        best = [[0.0] * (devices + 1)]
        for end in range(1, count):
            row = [float("inf")] * (devices + 1)
            for start in range(end):
                for m in range(1, devices + 1):
                    low = max(self.crossing[start], self.stage(start, end, m))
                    if low >= row[m]:
                        continue
                    for used in range(m, devices + 1):
                        row[used] = min(row[used], max(low, best[start][used - m]))
            best.append(row)
        return best[-1][devices]
