"""jax_step.py MODEL OPTIMIZER: one peer in JAX: jit of loss, gradient and update with donated state.

Threads follow the processor affinity of the process.
"""

import functools
import sys

import jax
import jax.numpy as jnp

jax.devices()

import common  # noqa: E402

name, optimizer = sys.argv[1:3]
before = common.memory("VmRSS")

import jax_models  # noqa: E402

parameters, statistics, x, y, loss_of = getattr(jax_models, name)()
map_tree = jax.tree_util.tree_map

if optimizer == "sgdm":
    moments = map_tree(jnp.zeros_like, parameters)

    def update(p, g, m):
        m = map_tree(lambda a, b: 0.9 * a + b, m, g)
        return map_tree(lambda a, b: a - 1e-3 * b, p, m), m

else:
    moments = (map_tree(jnp.zeros_like, parameters), map_tree(jnp.zeros_like, parameters), jnp.zeros((), jnp.float32))

    def update(p, g, state):
        m, v, t = state
        t = t + 1
        m = map_tree(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = map_tree(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = map_tree(lambda a, b, c: a - 1e-4 * (b / c1) / (jnp.sqrt(c / c2) + 1e-8), p, m, v)
        return p, (m, v, t)


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def train(p, m, s, x, y):
    (loss, s), g = jax.value_and_grad(loss_of, has_aux=True)(p, s, x, y)
    p, m = update(p, g, m)
    return p, m, s, loss


def step():
    global parameters, moments, statistics
    parameters, moments, statistics, loss = train(parameters, moments, statistics, x, y)
    jax.block_until_ready(parameters)
    return loss


common.run(step, name, before)
