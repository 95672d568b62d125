"""ddp_step.py MODE MODEL OPTIMIZER THREADS STEPS: one rank of PyTorch's DistributedDataParallel over gloo.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment. Each rank has its share of the batch. MODE as in
torch_step.py. Rank 0 prints the row.
"""

import datetime
import sys
import time

import torch
import torch.distributed as dist

import common
import models

mode, name, optimizer, threads = sys.argv[1:5]
torch.set_num_threads(int(threads))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
rank, size = dist.get_rank(), dist.get_world_size()
before = common.memory("VmRSS")
model, x, label = models.make(name)
model.train()
x, label = x.chunk(size)[rank].contiguous(), label.chunk(size)[rank].contiguous()
if mode == "channels_last":
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
parallel = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
update = models.optimizer(optimizer, model)
forward = torch.compile(models.loss) if mode == "compile" else models.loss


def step():
    update.zero_grad(set_to_none=True)
    loss = forward(parallel, x, label)
    loss.backward()
    update.step()
    return loss.detach()


# All ranks make the same number of steps: common.measure stops by the clock, which ranks must not do alone.
first = float(step())
seconds = []
for i in range(common.WARM + int(sys.argv[5])):
    t = time.perf_counter()
    step()
    if i >= common.WARM:
        seconds.append(time.perf_counter() - t)
loss = torch.tensor([first])
dist.all_reduce(loss)
if rank == 0:
    common.emit(model=name, loss=round(loss.item() / size, 5), peak_mb=round(common.memory("VmHWM")), base_mb=round(before),
                **common.summary(seconds))
dist.barrier()
