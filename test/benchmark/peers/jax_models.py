"""The benchmark models in JAX: each maker returns (parameters, running statistics, x, label, loss function).

Convolutions are NHWC, which XLA prefers on a CPU. loss(p, s, x, y) returns (loss, new running statistics).
"""

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)


def weight(*shape, scale=0.02):
    return jnp.asarray(rng.normal(0, scale, shape), jnp.float32)


def zeros(*shape):
    return jnp.zeros(shape, jnp.float32)


def normal(*shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def integers(high, *shape):
    return jnp.asarray(rng.integers(0, high, shape))


def conv(x, w, stride=1, pad=0):
    pads = [(pad, pad), (pad, pad)]
    return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def cross_entropy(logits, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))


def mlp():
    sizes = [784, 1024, 1024, 10]
    p = [(weight(a, b, scale=0.03), zeros(b)) for a, b in zip(sizes, sizes[1:])]

    def loss(p, s, x, y):
        for w, b in p[:-1]:
            x = jax.nn.relu(x @ w + b)
        return cross_entropy(x @ p[-1][0] + p[-1][1], y), s

    return p, {}, normal(256, 784), integers(10, 256), loss


def lenet():
    p = {
        "conv1": (weight(3, 3, 1, 32, scale=0.3), zeros(32)),
        "conv2": (weight(3, 3, 32, 64, scale=0.06), zeros(64)),
        "fc1": (weight(9216, 128, scale=0.01), zeros(128)),
        "fc2": (weight(128, 10, scale=0.1), zeros(10)),
    }

    def loss(p, s, x, y):
        for n in ("conv1", "conv2"):
            x = jax.nn.relu(conv(x, p[n][0]) + p[n][1])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p["fc1"][0] + p["fc1"][1])
        return cross_entropy(x @ p["fc2"][0] + p["fc2"][1], y), s

    return p, {}, normal(128, 28, 28, 1), integers(10, 128), loss


def resnet18():
    p, s, blocks = {}, {}, []

    def add(name, size, inputs, outputs):
        p[name] = weight(size, size, inputs, outputs, scale=(2 / (size * size * outputs)) ** 0.5)
        p[name + ".scale"], p[name + ".bias"] = jnp.ones(outputs), zeros(outputs)
        s[name] = (zeros(outputs), jnp.ones(outputs))

    add("stem", 3, 3, 64)
    inputs = 64
    for layer, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"{layer}.{block}", 2 if layer and not block else 1
            blocks.append((name, stride, inputs != outputs))
            add(name + ".a", 3, inputs, outputs)
            add(name + ".b", 3, outputs, outputs)
            if inputs != outputs:
                add(name + ".down", 1, inputs, outputs)
            inputs = outputs
    p["fc"] = (weight(512, 10, scale=0.04), zeros(10))

    def loss(p, s, x, y):
        new = {}

        def conv_norm(name, x, stride=1, pad=1):
            x = conv(x, p[name], stride, pad)
            mean = x.mean((0, 1, 2))
            variance = ((x - mean) ** 2).mean((0, 1, 2))
            new[name] = (0.9 * s[name][0] + 0.1 * mean, 0.9 * s[name][1] + 0.1 * variance)
            return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name + ".scale"] + p[name + ".bias"]

        x = jax.nn.relu(conv_norm("stem", x))
        for name, stride, down in blocks:
            y1 = jax.nn.relu(conv_norm(name + ".a", x, stride))
            y1 = conv_norm(name + ".b", y1)
            x = jax.nn.relu(y1 + (conv_norm(name + ".down", x, stride, 0) if down else x))
        return cross_entropy(x.mean((1, 2)) @ p["fc"][0] + p["fc"][1], y), new

    return p, s, normal(64, 32, 32, 3), integers(10, 64), loss


def gpt2(layers=4, width=256, heads=8, vocabulary=8192, length=128, batch=8):
    def norm():
        return jnp.ones(width), zeros(width)

    p = {"wte": weight(vocabulary, width), "wpe": weight(length, width), "ln": norm()}
    for i in range(layers):
        p[f"b{i}"] = {
            "ln1": norm(),
            "qkv": (weight(width, 3 * width), zeros(3 * width)),
            "proj": (weight(width, width), zeros(width)),
            "ln2": norm(),
            "fc": (weight(width, 4 * width), zeros(4 * width)),
            "fp": (weight(4 * width, width), zeros(width)),
        }

    def layer_norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias

    def linear(x, w, b):
        return x @ w + b

    def loss(p, s, x, y):
        h = p["wte"][x] + p["wpe"]
        mask = jnp.tril(jnp.ones((length, length), bool))
        for i in range(layers):
            q = p[f"b{i}"]
            z = linear(layer_norm(h, *q["ln1"]), *q["qkv"])
            split = lambda t: t.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
            a, k, v = map(split, jnp.split(z, 3, -1))
            w = jnp.einsum("bhqd,bhkd->bhqk", a, k) / (width // heads) ** 0.5
            w = jax.nn.softmax(jnp.where(mask, w, -1e30), -1)
            o = jnp.einsum("bhqk,bhkd->bhqd", w, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
            h = h + linear(o, *q["proj"])
            z = jax.nn.gelu(linear(layer_norm(h, *q["ln2"]), *q["fc"]), approximate=True)
            h = h + linear(z, *q["fp"])
        return cross_entropy((layer_norm(h, *p["ln"]) @ p["wte"].T).reshape(-1, vocabulary), y), s

    return p, {}, integers(vocabulary, batch, length), integers(vocabulary, batch * length), loss
