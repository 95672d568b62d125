"""torch_step.py MODE MODEL OPTIMIZER THREADS PRECISION: one peer in PyTorch.

MODE: eager, channels_last (eager with that memory format, for convolutional networks), compile (torch.compile),
compile_channels_last, max_autotune (torch.compile with mode="max-autotune-no-cudagraphs").
OPTIMIZER: sgdm or adam. PRECISION: fp32, or bf16 (autocast around model and loss).
"""

import contextlib
import sys

import torch

import common
import models

mode, name, optimizer, threads, precision = sys.argv[1:6]
torch.set_num_threads(int(threads))
before = common.memory("VmRSS")
model, x, label = models.make(name)
model.train()
if mode.endswith("channels_last"):
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
update = models.optimizer(optimizer, model)
cast = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
forward = models.loss
if mode.startswith("compile"):
    forward = torch.compile(models.loss)
elif mode == "max_autotune":
    forward = torch.compile(models.loss, mode="max-autotune-no-cudagraphs")


def step():
    update.zero_grad(set_to_none=True)
    with cast:
        loss = forward(model, x, label)
    loss.backward()
    update.step()
    return loss.detach()


common.run(step, name, before)
