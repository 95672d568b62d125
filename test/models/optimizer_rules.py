"""Optimizers in NumPy, float64, as PyTorch and the papers define them: references for optimizers.py.

Each is a function (parameter, gradient, state, lr, step, **constants) -> new parameter; `state` is a dictionary that it
renews, `step` is 1 in the first step. `adapts` is false for parameters without a trust ratio.
"""

import numpy as np


def average(state, name, x, keep):
    state[name] = keep * state.get(name, 0.0) + (1 - keep) * x
    return state[name]


def ratio(numerator, denominator, *norms):
    return numerator / denominator if min(norms) > 0 else 1.0


def sgd(p, g, state, lr, step, momentum=0.0, weight_decay=0.0, adapts=True):
    """torch.optim.SGD."""
    g = g + weight_decay * p
    if momentum:
        g = state["momentum"] = momentum * state.get("momentum", 0.0) + g
    return p - lr * g


def lars(p, g, state, lr, step, momentum=0.0, trust_coefficient=1e-3, eps=1e-8, weight_decay=0.0, adapts=True):
    """arXiv 1708.03888, equation 6, with the rate outside of the momentum."""
    if adapts:
        w, slope = np.linalg.norm(p), np.linalg.norm(g)
        local = ratio(trust_coefficient * w, slope + weight_decay * w + eps, w, slope)
        g, weight_decay = local * (g + weight_decay * p), 0.0
    return sgd(p, g, state, lr, step, momentum, weight_decay)


def adam(p, g, state, lr, step, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, adapts=True):
    """torch.optim.Adam."""
    return p - lr * adam_change(g + weight_decay * p, state, step, beta1, beta2, eps)


def adamw(p, g, state, lr, step, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, adapts=True):
    """torch.optim.AdamW."""
    return p * (1 - lr * weight_decay) - lr * adam_change(g, state, step, beta1, beta2, eps)


def adam_change(g, state, step, beta1, beta2, eps):
    m = average(state, "exp_avg", g, beta1) / (1 - beta1**step)
    v = average(state, "exp_avg_sq", g * g, beta2) / (1 - beta2**step)
    return m / (np.sqrt(v) + eps)


def lamb(p, g, state, lr, step, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0, adapts=True):
    """arXiv 1904.00962, algorithm 2."""
    change = adam_change(g, state, step, beta1, beta2, eps) + weight_decay * p
    w, u = np.linalg.norm(p), np.linalg.norm(change)
    return p - lr * (ratio(w, u, w, u) if adapts else 1.0) * change


def adagrad(p, g, state, lr, step, eps=1e-10, weight_decay=0.0, adapts=True):
    """torch.optim.Adagrad with lr_decay 0."""
    g = g + weight_decay * p
    state["sum"] = state.get("sum", 0.0) + g * g
    return p - lr * g / (np.sqrt(state["sum"]) + eps)


def rmsprop(p, g, state, lr, step, alpha=0.99, eps=1e-8, momentum=0.0, centered=False, weight_decay=0.0, adapts=True):
    """torch.optim.RMSprop."""
    g = g + weight_decay * p
    square = average(state, "square_avg", g * g, alpha)
    if centered:
        square = square - average(state, "grad_avg", g, alpha) ** 2
    change = g / (np.sqrt(square) + eps)
    if momentum:
        change = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0) + change
    return p - lr * change


def lion(p, g, state, lr, step, beta1=0.9, beta2=0.99, weight_decay=0.0, adapts=True):
    """arXiv 2302.06675, algorithm 2."""
    m = state.get("exp_avg", 0.0)
    average(state, "exp_avg", g, beta2)
    return p * (1 - lr * weight_decay) - lr * np.sign(beta1 * m + (1 - beta1) * g)


def root_mean_square(x):
    return np.sqrt(np.mean(x * x))


def adafactor(p, g, state, lr, step, beta2_decay=0.8, eps=1e-3, weight_decay=0.0, adapts=True, least=float(np.finfo(np.float32).eps)):
    """torch.optim.Adafactor with d 1; beta2_decay has the other sign, `least` is the first of its eps."""
    keep = 1 - step**-beta2_decay
    rate = max(eps, root_mean_square(p)) * min(lr, step**-0.5)
    p, square = p * (1 - lr * weight_decay), g * g
    if p.ndim > 1:
        row = average(state, "row_var", square.mean(-1, keepdims=True), keep)
        column = average(state, "col_var", square.mean(-2, keepdims=True), keep)
        square = row * column / np.maximum(row.mean(-2, keepdims=True), least)
    else:
        square = average(state, "variance", square, keep)
    change = g / np.sqrt(np.maximum(square, least**2))
    return p - rate / max(1.0, root_mean_square(change)) * change


def muon(p, g, state, lr, step, momentum=0.95, match_rms=False, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, adapts=True):
    """torch.optim.Muon with Nesterov's momentum, without its rounding to bf16; adamw for what is no matrix."""
    if p.ndim != 2:
        return adamw(p, g, state, lr, step, beta1, beta2, eps, weight_decay)
    moving = average(state, "momentum_buffer", g, momentum)
    x = (1 - momentum) * g + momentum * moving
    x = x.T if p.shape[0] > p.shape[1] else x
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    x = x.T if p.shape[0] > p.shape[1] else x
    factor = 0.2 * max(p.shape) ** 0.5 if match_rms else max(1.0, p.shape[0] / p.shape[1]) ** 0.5
    return p * (1 - lr * weight_decay) - lr * factor * x


RULES = {rule.__name__: rule for rule in (sgd, adam, adamw, adagrad, rmsprop, lion, lamb, lars, adafactor, muon)}
