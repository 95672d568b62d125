"""Recurrent layers."""

from graph import Reject
from rules import rule

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@rule("RNN", "GRU", "LSTM", since=7)
def recurrent(g, op):
    gates, hidden = GATES[op], g.between(1, 4)
    layout = g.chance(0.5) and g.opset >= 14
    x = g.pick(rank=3)
    if not layout:
        x = g.add("Transpose", x, perm=[1, 0, 2])
    steps, batch = x.shape[:2][:: -1 if layout else 1]
    if steps > 6:
        raise Reject
    direction = g.of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    weights = g.parameter([ways, gates * hidden, x.shape[2]]), g.parameter([ways, gates * hidden, hidden])
    bias = g.parameter([ways, 2 * gates * hidden], "bias") if g.chance(0.6) else None
    lengths = None
    if g.chance(0.3):
        lengths = g.add("Cast", g.constant(g.whole([batch], 1, steps + 1)), to=6)
    # A parameter with the batch's size prevents microbatches: initial states are computed.
    state = lambda: g.add("Expand", g.parameter([1, ways, hidden] if layout else [ways, 1, hidden]), g.dims(shape)) if g.chance(0.3) else None
    shape = [batch, ways, hidden] if layout else [ways, batch, hidden]
    inputs = [x, *weights, bias, lengths, state()]
    if op == "LSTM":
        inputs += [state(), g.parameter([ways, 3 * hidden]) if g.chance(0.3) else None]
    usual = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[op]
    names = usual if g.chance(0.6) else [g.of("Tanh", "Sigmoid", "Softsign") for _ in usual]
    more = {"layout": 1} if layout else {}
    if op == "GRU":
        more["linear_before_reset"] = g.of(0, 1)
    g.add(op, *inputs, outputs=g.between(2, 3) if op == "LSTM" else 2, direction=direction, hidden_size=hidden, activations=names * ways, **more)
