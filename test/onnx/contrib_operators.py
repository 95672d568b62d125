"""Operators of onnxruntime (com.microsoft) in NumPy, from their definitions:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"""

import math

import numpy as np
from onnx.reference.op_run import OpRun

import numpy_operators


class Contrib(OpRun):
    op_domain = "com.microsoft"


class FusedMatMul(Contrib):
    def _run(self, a, b, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
        def operand(x, last, batch):
            if batch:
                x = np.moveaxis(x, 0, -2)
            return np.swapaxes(x, -1, -2) if last else x

        return (alpha * operand(a, transA, transBatchA) @ operand(b, transB, transBatchB),)


def gelu(x):
    return 0.5 * x * (1 + numpy_operators.erf(x / math.sqrt(2)))


class Gelu(Contrib):
    def _run(self, x, **others):  # the evaluator adds the attributes of ONNX's operator of this name
        return (gelu(x),)


class BiasGelu(Contrib):
    def _run(self, x, bias):
        return (gelu(x + bias),)


class FastGelu(Contrib):
    def _run(self, x, bias=None):
        x = x if bias is None else x + bias
        return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)


class QuickGelu(Contrib):
    def _run(self, x, alpha=1.702):
        return (x / (1 + np.exp(-alpha * x)),)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class BiasSoftmax(Contrib):
    def _run(self, x, bias, axis=1, is_inner_broadcast=0):
        total = x + bias
        return (softmax(total.reshape(*x.shape[:axis], -1)).reshape(x.shape),)


def act(x, name, numbers):
    if name == "Clip":
        return np.clip(x, *numbers)
    if name == "LeakyRelu":
        return np.where(x > 0, x, numbers[0] * x)
    if name == "HardSigmoid":
        return np.clip(numbers[0] * x + numbers[1], 0, 1)
    return {"": lambda v: v, "Relu": lambda v: np.maximum(v, 0), "Tanh": np.tanh, "Sigmoid": lambda v: 1 / (1 + np.exp(-v))}[name](x)


class FusedConv(Contrib):
    """Of two spatial dimensions, without groups."""

    def _run(self, x, w, bias=None, more=None, activation="", activation_params=(), pads=(0, 0, 0, 0), strides=(1, 1), kernel_shape=None):
        padded = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
        windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
        y = np.einsum("nchwij,ocij->nohw", windows, w)
        if bias is not None:
            y = y + bias.reshape(1, -1, 1, 1)
        if more is not None:
            y = y + more
        return (act(y, activation, list(activation_params or ())),)


class FusedGemm(Contrib):
    def _run(self, a, b, c, alpha=1.0, beta=1.0, transA=0, transB=0, activation="", activation_alpha=0.01):
        a, b = (a.T if transA else a), (b.T if transB else b)
        return (act(alpha * a @ b + beta * c, activation, [activation_alpha]),)


def layer_norm(x, scale, bias, epsilon):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + (0 if bias is None else bias)


def rms_norm(x, scale, epsilon):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * scale


class SimplifiedLayerNormalization(OpRun):
    op_domain = ""

    def _run(self, x, scale, axis=-1, epsilon=1e-5, stash_type=1):
        return (rms_norm(x, scale, epsilon),)


class SkipLayerNormalization(Contrib):
    def _run(self, x, skip, scale, shift=None, bias=None, epsilon=1e-12):
        total = x + skip + (0 if bias is None else bias)
        mean, variance = total.mean(axis=-1, keepdims=True), total.var(axis=-1, keepdims=True)
        return (layer_norm(total, scale, shift, epsilon), mean, 1 / np.sqrt(variance + epsilon), total)


class SkipSimplifiedLayerNormalization(Contrib):
    def _run(self, x, skip, scale, bias=None, epsilon=1e-12):
        total = x + skip + (0 if bias is None else bias)
        inverse = 1 / np.sqrt((total * total).mean(axis=-1, keepdims=True) + epsilon)
        return (rms_norm(total, scale, epsilon), inverse, inverse, total)


class EmbedLayerNormalization(Contrib):
    def _run(self, words, segments, table, positions, segment_table, scale, shift, mask=None, ids=None, epsilon=1e-12, mask_index_type=0):
        total = table[words] + (positions[: words.shape[1]] if ids is None else positions[ids])
        if segments is not None:
            total = total + segment_table[segments]
        lengths = np.zeros(len(words), np.int32) if mask is None else mask.sum(axis=1).astype(np.int32)
        return (layer_norm(total, scale, shift, epsilon), lengths, total)


def heads(x, count):
    return np.moveaxis(x.reshape(*x.shape[:2], count, -1), 2, 1)


def attend(q, k, v, scale, bias, causal):
    """softmax(scale q k' + bias) v of [batch, heads, length, size], element by element."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    scale = scale or 1 / math.sqrt(q.shape[3])
    for b, h, i in np.ndindex(*q.shape[:3]):
        last = i + k.shape[2] - q.shape[2] if causal else k.shape[2] - 1
        logits = scale * k[b, h, : last + 1] @ q[b, h, i]
        if bias is not None:
            logits = logits + np.broadcast_to(bias, (*q.shape[:3], k.shape[2]))[b, h, i, : last + 1]
        out[b, h, i] = softmax(logits) @ v[b, h, : last + 1]
    return np.moveaxis(out, 1, 2).reshape(q.shape[0], q.shape[2], -1)


def mask_bias(mask, batch, queries, keys, value):
    """What a mask of whole numbers adds to the logits."""
    bias = np.zeros((batch, 1, queries, keys))
    for b, i, j in np.ndindex(batch, queries, keys):
        if mask.ndim == 1:
            start = mask[batch + b] if len(mask) == 2 * batch else 0
            allowed = start <= j < mask[b]
        else:
            allowed = mask[b, j] if mask.ndim == 2 else mask[b, i, j]
        bias[b, 0, i, j] = 0 if allowed else value
    return bias


def all_bias(q, k, mask, more, value):
    bias = None if mask is None else mask_bias(mask, q.shape[0], q.shape[2], k.shape[2], value)
    return bias if more is None else more if bias is None else bias + more


class Attention(Contrib):
    def _run(self, x, w, bias=None, mask=None, past=None, more=None, num_heads=1, scale=0.0, unidirectional=0, qkv_hidden_sizes=None, mask_filter_value=-10000.0, **others):
        sizes = list(qkv_hidden_sizes or [w.shape[1] // 3] * 3)
        every = x @ w + (0 if bias is None else bias)
        q, k, v = (heads(part, num_heads) for part in np.split(every, np.cumsum(sizes)[:2], axis=2))
        if past is not None:
            k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
        y = attend(q, k, v, scale, all_bias(q, k, mask, more, mask_filter_value), unidirectional)
        return (y, np.stack([k, v]) if k.shape == v.shape else k)


class MultiHeadAttention(Contrib):
    def _run(self, q, k=None, v=None, bias=None, mask=None, more=None, past_k=None, past_v=None, num_heads=1, scale=0.0, unidirectional=0, mask_filter_value=-10000.0):
        move = lambda x: np.moveaxis(x, 1, 2)
        if k is None:
            q, k, v = (move(q[:, :, :, i]) for i in range(3))
        else:
            parts = [0, 0, 0] if bias is None else np.split(bias, np.cumsum([q.shape[2], 0 if k.ndim != 3 else k.shape[2]]))
            q = heads(q + parts[0], num_heads)
            if k.ndim == 5:
                k, v = move(k[:, :, :, 0]), move(k[:, :, :, 1])
            elif k.ndim == 3:
                k, v = heads(k + parts[1], num_heads), heads(v + parts[2], num_heads)
        if past_k is not None:
            k, v = np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2)
        return (attend(q, k, v, scale, all_bias(q, k, mask, more, mask_filter_value), unidirectional), k, v)


class RotaryEmbedding(Contrib):
    def _run(self, x, positions, cosine, sine, interleaved=0, num_heads=0, scale=1.0, is_packed_batching=0, rotary_embedding_dim=0):
        whole = x if x.ndim == 4 else heads(x, num_heads or x.shape[2] // (2 * cosine.shape[1]))
        y, half = whole.copy(), cosine.shape[1]
        for b, h, i in np.ndindex(*whole.shape[:3]):
            at = positions.ravel()[0] + i if positions.size == 1 else positions[b, i]
            for c in range(half):
                one, two = (2 * c, 2 * c + 1) if interleaved else (c, c + half)
                angle = complex(cosine[at, c], sine[at, c]) * complex(whole[b, h, i, one], whole[b, h, i, two])
                y[b, h, i, one], y[b, h, i, two] = angle.real, angle.imag
        return (y if x.ndim == 4 else np.moveaxis(y, 1, 2).reshape(x.shape),)


class LinearAttention(OpRun):
    """ONNX's, in double: its own evaluator computes in float. One head of one sequence after the other."""

    def _run(self, q, k, v, past=None, decay=None, beta=None, chunk_size=64, kv_num_heads=1, q_num_heads=1, scale=0.0, update_rule="gated_delta"):
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
        batch, count, tokens, keys = k.shape
        states = np.zeros((batch, count, keys, v.shape[3])) if past is None else past.copy()
        y = np.zeros((batch, tokens, q_num_heads, v.shape[3]))
        for b, h, t in np.ndindex(batch, count, tokens):
            s = states[b, h]
            if decay is not None:
                s = s * np.exp(heads(decay, count)[b, h, t])[:, None]
            value = v[b, h, t]
            if beta is not None:
                value = beta[b, t, h if beta.shape[2] > 1 else 0] * (value - k[b, h, t] @ s)
            states[b, h] = s + np.outer(k[b, h, t], value)
            group = q_num_heads // count
            for g in range(h * group, (h + 1) * group):
                y[b, t, g] = (scale or 1 / math.sqrt(keys)) * (q[b, g, t] @ states[b, h])
        return (y.reshape(batch, tokens, -1), states)


ALL = [*Contrib.__subclasses__(), SimplifiedLayerNormalization, LinearAttention]
