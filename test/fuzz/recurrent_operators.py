"""LSTM, GRU and RNN in NumPy, from the equations in ONNX's documentation: https://onnx.ai/onnx/operators/onnx__LSTM.html"""

import numpy as np
from onnx.reference.op_run import OpRun

FUNCTIONS = {  # of x and the numbers that it takes, first alpha
    "Relu": (0, lambda x: np.maximum(x, 0)),
    "Tanh": (0, np.tanh),
    "Sigmoid": (0, lambda x: 1 / (1 + np.exp(-x))),
    "Softsign": (0, lambda x: x / (1 + np.abs(x))),
    "Softplus": (0, lambda x: np.log1p(np.exp(x))),
    "Affine": (2, lambda x, a, b: a * x + b),
    "ScaledTanh": (2, lambda x, a, b: a * np.tanh(b * x)),
    "HardSigmoid": (2, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "LeakyRelu": (1, lambda x, a: np.where(x > 0, x, a * x)),
    "Elu": (1, lambda x, a: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))),
}


def chosen(names, alphas, betas):
    """Functions of one argument; each takes the next numbers of the two lists."""
    alphas, betas, result = list(alphas or []), list(betas or []), []
    for name in names:
        count, f = FUNCTIONS[name]
        numbers = ([alphas.pop(0)] if count > 0 else []) + ([betas.pop(0)] if count > 1 else [])
        result.append(lambda x, f=f, numbers=numbers: f(x, *numbers))
    return result


class Recurrent(OpRun):
    def run_layer(self, x, w, r, b, lengths, h, c, p, direction, activations, default, alphas, betas, layout, cell):
        """`cell(x, h, c, weights of one direction, functions)` gives h and c. One sequence after the other."""
        x = x if layout else np.moveaxis(x, 1, 0)
        (batch, steps, _), directions, hidden = x.shape, w.shape[0], r.shape[2]
        first = lambda s: np.zeros((batch, directions, hidden)) if s is None else s if layout else np.moveaxis(s, 1, 0)
        h, c = first(h).copy(), first(c).copy()
        y = np.zeros((batch, steps, directions, hidden))
        functions = chosen(activations or default * directions, alphas, betas)
        for n, d in np.ndindex(batch, directions):
            own = functions[d * len(default) : (d + 1) * len(default)]
            weights = w[d], r[d], np.zeros(2 * len(w[d])) if b is None else b[d], np.zeros(3 * hidden) if p is None else p[d]
            times = range(steps if lengths is None else int(lengths[n]))
            for t in reversed(times) if direction == "reverse" or d else times:
                h[n, d], c[n, d] = cell(x[n, t], h[n, d], c[n, d], weights, own)
                y[n, t, d] = h[n, d]
        out = lambda s: s if layout else np.moveaxis(s, 0, 1)
        return (y if layout else np.transpose(y, (1, 2, 0, 3))), out(h), out(c)


class LSTM(Recurrent):
    def _run(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None, activation_alpha=None, activation_beta=None, activations=None,
             clip=None, direction="forward", hidden_size=None, input_forget=0, layout=0):
        def cell(x, h, c, weights, functions):
            (w, r, b, p), (f, g, last) = weights, functions
            cut = (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
            wi, wo, wf, wc = np.split(w @ x + r @ h + b[: len(w)] + b[len(w) :], 4)
            pi, po, pf = np.split(p, 3)
            i = f(cut(wi + pi * c))
            forget = 1 - i if input_forget else f(cut(wf + pf * c))
            c = forget * c + i * g(cut(wc))
            return f(cut(wo + po * c)) * last(c), c

        default = ["Sigmoid", "Tanh", "Tanh"]
        return self.run_layer(x, w, r, b, lengths, h, c, p, direction, activations, default, activation_alpha, activation_beta, layout, cell)


class GRU(Recurrent):
    def _run(self, x, w, r, b=None, lengths=None, h=None, activation_alpha=None, activation_beta=None, activations=None, clip=None,
             direction="forward", hidden_size=None, layout=0, linear_before_reset=0):
        def cell(x, h, c, weights, functions):
            (w, r, b, _), (f, g) = weights, functions
            cut = (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
            (wz, wr, wh), (rz, rr, rh) = np.split(w @ x + b[: len(w)], 3), np.split(r, 3)
            bz, br, bh = np.split(b[len(w) :], 3)
            z, reset = f(cut(wz + rz @ h + bz)), f(cut(wr + rr @ h + br))
            inner = reset * (rh @ h + bh) if linear_before_reset else rh @ (reset * h) + bh
            return (1 - z) * g(cut(wh + inner)) + z * h, c

        default = ["Sigmoid", "Tanh"]
        return self.run_layer(x, w, r, b, lengths, h, None, None, direction, activations, default, activation_alpha, activation_beta, layout, cell)[:2]


class RNN(Recurrent):
    def _run(self, x, w, r, b=None, lengths=None, h=None, activation_alpha=None, activation_beta=None, activations=None, clip=None,
             direction="forward", hidden_size=None, layout=0):
        def cell(x, h, c, weights, functions):
            w, r, b, _ = weights
            z = w @ x + r @ h + b[: len(w)] + b[len(w) :]
            return functions[0](np.clip(z, -clip, clip) if clip else z), c

        return self.run_layer(x, w, r, b, lengths, h, None, None, direction, activations, ["Tanh"], activation_alpha, activation_beta, layout, cell)[:2]


ALL = [LSTM, GRU, RNN]
