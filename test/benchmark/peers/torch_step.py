"""torch_step.py MODE MODEL OPTIMIZER THREADS: one peer in PyTorch.

MODE: eager, channels_last (eager with that memory format, for convolutional networks), compile (torch.compile).
OPTIMIZER: sgdm or adam.
"""

import sys

import torch

import common
import models

mode, name, optimizer, threads = sys.argv[1:5]
torch.set_num_threads(int(threads))
before = common.memory("VmRSS")
model, x, label = models.make(name)
model.train()
if mode == "channels_last":
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
update = models.optimizer(optimizer, model)
forward = torch.compile(models.loss) if mode == "compile" else models.loss


def step():
    update.zero_grad(set_to_none=True)
    loss = forward(model, x, label)
    loss.backward()
    update.step()
    return loss.detach()


common.run(step, name, before)
