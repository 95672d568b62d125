"""RNN, GRU and LSTM in NumPy, from ONNX's definitions; the package's own lack the reverse direction, or sequence lengths."""

import numpy as np
from numpy_operators import Operator

FUNCTIONS = {"Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softsign": lambda x: x / (1 + np.abs(x)), "Relu": lambda x: np.maximum(x, 0)}


class Recurrent(Operator):
    """All but the cell, which is `step(x, state, weights, f)`: the next state (h, ..), each [batch, hidden]."""

    def layer(self, names, x, w, r, b, lengths, states, extra, direction, layout, hidden):
        if layout:
            x, states = x.swapaxes(0, 1), [s if s is None else s.swapaxes(0, 1) for s in states]
        steps, batch, _ = x.shape
        lengths = np.full(batch, steps) if lengths is None else lengths
        ways = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
        names = names or self.usual * len(ways)
        each = len(names) // len(ways)
        outputs, last = np.zeros((steps, len(ways), batch, hidden), x.dtype), [[] for _ in states]
        for way, backward in enumerate(ways):
            functions = [FUNCTIONS[name.title()] for name in names[way * each :][:each]]
            biases = np.zeros(2 * w.shape[1], x.dtype) if b is None else b[way]
            weights = (w[way], r[way], *np.split(biases, 2), *(None if e is None else e[way] for e in extra))
            state = [np.zeros((batch, hidden), x.dtype) if s is None else s[way] for s in states]
            for t in reversed(range(steps)) if backward else range(steps):
                active = (t < lengths)[:, None]
                new = self.step(x[t], state, weights, functions)
                state = [np.where(active, n, s) for n, s in zip(new, state)]
                outputs[t, way] = np.where(active, state[0], 0)
            for kept, value in zip(last, state):
                kept.append(value)
        last = [np.stack(kept) for kept in last]
        return (outputs.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in last)) if layout else (outputs, *last)


class RNN(Recurrent):
    usual = ["Tanh"]

    def _run(self, x, w, r, b=None, lengths=None, h=None, activations=None, direction=None, layout=None, hidden_size=None, **_):
        return self.layer(activations, x, w, r, b, lengths, [h], [], direction, layout, hidden_size)

    def step(self, x, state, weights, f):
        w, r, wb, rb = weights
        return [f[0](x @ w.T + state[0] @ r.T + wb + rb)]


class GRU(Recurrent):
    usual = ["Sigmoid", "Tanh"]

    def _run(self, x, w, r, b=None, lengths=None, h=None, activations=None, direction=None, layout=None, hidden_size=None, linear_before_reset=None, **_):
        self.linear_first = linear_before_reset
        return self.layer(activations, x, w, r, b, lengths, [h], [], direction, layout, hidden_size)

    def step(self, x, state, weights, f):
        (h,) = state
        w, r, wb, rb = weights
        xz, xr, xh = np.split(x @ w.T + wb, 3, axis=1)
        rows, biases = np.split(r, 3), np.split(rb, 3)
        z, reset = f[0](xz + h @ rows[0].T + biases[0]), f[0](xr + h @ rows[1].T + biases[1])
        inner = reset * (h @ rows[2].T + biases[2]) if self.linear_first else (reset * h) @ rows[2].T + biases[2]
        return [(1 - z) * f[1](xh + inner) + z * h]


class LSTM(Recurrent):
    usual = ["Sigmoid", "Tanh", "Tanh"]

    def _run(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None, activations=None, direction=None, layout=None, hidden_size=None, **_):
        return self.layer(activations, x, w, r, b, lengths, [h, c], [p], direction, layout, hidden_size)

    def step(self, x, state, weights, f):
        h, c = state
        w, r, wb, rb, peephole = weights
        pi, po, pf = np.zeros((3, c.shape[1])) if peephole is None else np.split(peephole, 3)
        i, o, forget, cell = np.split(x @ w.T + h @ r.T + wb + rb, 4, axis=1)
        c = f[0](forget + pf * c) * c + f[0](i + pi * c) * f[1](cell)
        return [f[0](o + po * c) * f[2](c), c]


ALL = [RNN, GRU, LSTM]
