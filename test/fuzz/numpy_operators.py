"""Operators in NumPy, from ONNX's definitions, where the package's own reference rounds to float32, lacks a case, or fails."""

import itertools
import math

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_causal_conv_with_state, op_resize


class Operator(OpRun):
    op_domain = ""


def erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


class Erf(Operator):
    def _run(self, x):
        return (erf(x),)


class Gelu(Operator):
    def _run(self, x, approximate=None):
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + erf(x / math.sqrt(2))),)


class HardSwish(Operator):
    """Its function in the package has a sixth in float32."""

    def _run(self, x):
        return (x * np.clip(x / 6 + 0.5, 0, 1),)


class SwiGLU(Operator):
    def _run(self, gate, linear, alpha=None):
        return (gate / (1 + np.exp(-alpha * gate)) * linear,)


class Mean(Operator):
    def _run(self, *terms):
        return (sum(terms[1:], terms[0]) / len(terms),)


class Resize(Operator, op_resize.Resize):
    """The package's own, whose default of `cubic_coeff_a` is a number in float32, and so are then its cubic weights."""

    def _run(self, *inputs, cubic_coeff_a=None, **attributes):
        return super()._run(*inputs, cubic_coeff_a=float(cubic_coeff_a), **attributes)


class CausalConvWithState(Operator, op_causal_conv_with_state.CausalConvWithState):
    """The package's own, whose activation is computed in float32."""

    def _run(self, *inputs, activation=None):
        output, state = super()._run(*inputs, activation="none")
        return output / (1 + np.exp(-output)) if activation in ("silu", "swish") else output, state


class MeanVarianceNormalization(Operator):
    def _run(self, x, axes=None):
        axes = tuple(axes)
        mean = x.mean(axis=axes, keepdims=True)
        return ((x - mean) / (np.sqrt((x * x).mean(axis=axes, keepdims=True) - mean**2) + 1e-9),)


class LRN(Operator):
    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        total = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
            total[:, c] = (x[:, low:high] ** 2).sum(axis=1)
        return (x / (bias + alpha / size * total) ** beta,)


class MaxPool(Operator):
    """The package's own operator misinterprets padding that differs at the two ends."""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None, strides=None):
        rank = x.ndim - 2
        strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
        spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel_shape)]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            outer = [max(0, (-(-n // s) - 1) * s + w - n) for n, s, w in zip(x.shape[2:], strides, spans)]
            small, large = [p // 2 for p in outer], [p - p // 2 for p in outer]
            pads = small + large if auto_pad == "SAME_UPPER" else large + small
        room = [n + a + b - w for n, a, b, w in zip(x.shape[2:], pads, pads[rank:], spans)]
        sizes = [(-(-r // s) if ceil_mode else r // s) + 1 for r, s in zip(room, strides)]
        # A last window that begins in the padding at the end does not exist.
        sizes = [o - 1 if (o - 1) * s >= n + a else o for o, s, n, a in zip(sizes, strides, x.shape[2:], pads)]
        wide = [(0, 0), (0, 0), *((a, b + s + w) for a, b, s, w in zip(pads, pads[rank:], strides, spans))]
        padded = np.pad(x, wide, constant_values=-np.inf)
        windows = [
            padded[(..., *(slice(o * d, o * d + s * (n - 1) + 1, s) for o, d, s, n in zip(offset, dilations, strides, sizes)))]
            for offset in np.ndindex(*kernel_shape)
        ]
        return (np.max(windows, axis=0),)


class GlobalMaxPool(Operator):
    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class GlobalLpPool(Operator):
    def _run(self, x, p=None):
        return ((np.abs(x) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),)


class AffineGrid(Operator):
    """Of two spatial dimensions."""

    def _run(self, theta, size, align_corners=None):
        n, _, h, w = (int(s) for s in size)
        at = lambda k: np.linspace(-1, 1, k) if align_corners else (2 * np.arange(k) + 1) / k - 1
        y, x = np.meshgrid(at(h), at(w), indexing="ij")
        grid = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3)
        return ((grid @ np.swapaxes(theta, 1, 2)).reshape(n, h, w, 2),)


class GatherElements(Operator):
    def _run(self, data, indices, axis=None):
        places = list(np.indices(indices.shape))
        places[axis] = np.where(indices < 0, indices + data.shape[axis], indices)
        return (data[tuple(places)],)


class Scatter(Operator):
    def _run(self, data, indices, updates, axis=None):
        result = data.copy()
        places = list(np.indices(indices.shape))
        places[axis or 0] = indices
        result[tuple(places)] = updates
        return (result,)


class Upsample(Operator):
    def _run(self, x, scales, mode=None):
        for d, scale in enumerate(scales):
            x = np.take(x, np.floor(np.arange(int(x.shape[d] * scale)) / scale).astype(int), axis=d)
        return (x,)


class ConvTranspose(Operator):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None,
             output_shape=None, pads=None, strides=None):
        rank = x.ndim - 2
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        more, pads = output_padding or [0] * rank, pads or [0] * 2 * rank
        full = [s * (i - 1) + m + d * (k - 1) + 1 for s, i, m, d, k in zip(strides, x.shape[2:], more, dilations, w.shape[2:])]
        inputs, each = w.shape[0] // group, w.shape[1]
        y = np.zeros((x.shape[0], group * each, *full), x.dtype)
        for c, offset in itertools.product(range(group), np.ndindex(*w.shape[2:])):
            taken = x[:, c * inputs : (c + 1) * inputs]
            part = np.einsum("ni...,io->no...", taken, w[(slice(c * inputs, (c + 1) * inputs), slice(None), *offset)])
            where = tuple(slice(o * d, o * d + s * (i - 1) + 1, s) for o, d, s, i in zip(offset, dilations, strides, x.shape[2:]))
            y[(slice(None), slice(c * each, (c + 1) * each), *where)] += part
        y = y[(slice(None), slice(None), *(slice(p, f - q) for p, q, f in zip(pads, pads[rank:], full)))]
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


class GridSample(Operator):
    """As PyTorch's grid_sample: the package's own operator rounds coordinates to float32, and moves those of cubic interpolation to
    the border before it looks for neighbours."""

    @staticmethod
    def folded(at, size, mode, corners):
        """A coordinate that padding moves into the image."""
        if mode == "border":
            return min(max(at, 0), size - 1)
        if mode == "reflection":
            low, span = (0, size - 1) if corners else (-0.5, size)
            if span == 0:
                return low
            turned = abs(at - low) % (2 * span)
            return low + min(turned, 2 * span - turned)
        return at

    @staticmethod
    def neighbours(at, mode):
        """(index, weight) along one dimension."""
        if mode == "nearest":
            return [(int(np.rint(at)), 1.0)]
        first = math.floor(at)
        if mode in ("linear", "bilinear"):
            return [(first + k, 1 - abs(at - first - k)) for k in (0, 1)]
        keys = lambda d: 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
        return [(first + k, keys(abs(at - first - k))) for k in (-1, 0, 1, 2)]

    def _run(self, x, grid, align_corners=None, mode=None, padding_mode=None):
        sizes = x.shape[2:]
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        for place in np.ndindex(grid.shape[:-1]):
            along = []
            for size, g in zip(sizes, grid[place][::-1]):
                at = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
                if "cubic" not in mode:
                    at = self.folded(at, size, padding_mode, align_corners)
                along.append(self.neighbours(at, mode))
            for chosen in itertools.product(*along):
                index = tuple(int(round(self.folded(i, size, padding_mode, align_corners))) for (i, _), size in zip(chosen, sizes))
                index = tuple(min(i, s - 1) if padding_mode == "reflection" else i for i, s in zip(index, sizes))
                if all(0 <= i < size for i, size in zip(index, sizes)):
                    y[(place[0], slice(None), *place[1:])] += math.prod(w for _, w in chosen) * x[(place[0], slice(None), *index)]
        return (y,)


class DeformConv(Operator):
    """Of images with two spatial dimensions."""

    def _run(self, x, w, offset, bias=None, mask=None, dilations=None, group=1, kernel_shape=None, offset_group=1, pads=None, strides=None):
        kernel, (rows, columns) = w.shape[2:], offset.shape[2:]
        dilations, pads, strides = dilations or [1, 1], pads or [0] * 4, strides or [1, 1]
        own, each = x.shape[1] // offset_group, x.shape[1] // group
        offset = offset.reshape(len(x), offset_group, *kernel, 2, rows, columns)
        mask = np.ones((len(x), offset_group, *kernel, rows, columns)) if mask is None else mask.reshape(len(x), offset_group, *kernel, rows, columns)
        y = np.zeros((len(x), len(w), rows, columns))
        for n, i, j, r, c in np.ndindex(len(x), *kernel, rows, columns):
            window = np.zeros(x.shape[1])
            for part in range(offset_group):
                at = [k * d + p * s - q + o for k, d, p, s, q, o in
                      zip((i, j), dilations, (r, c), strides, pads, offset[n, part, i, j, :, r, c])]
                for (a, wa), (b, wb) in itertools.product(*(GridSample.neighbours(v, "linear") for v in at)):
                    if 0 <= a < x.shape[2] and 0 <= b < x.shape[3]:
                        channels = slice(part * own, (part + 1) * own)
                        window[channels] += wa * wb * mask[n, part, i, j, r, c] * x[n, channels, a, b]
            for o in range(len(w)):
                first = o // (len(w) // group) * each
                y[n, o, r, c] += w[o, :, i, j] @ window[first : first + each]
        return (y if bias is None else y + bias.reshape(1, -1, 1, 1),)


ALL = Operator.__subclasses__()
