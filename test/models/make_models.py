#!/usr/bin/env python3
"""Makes the reference training cases: one folder per case beside this file.

    python make_models.py [case ...]

<case>/model.onnx       weights inside, static shapes, training-mode graph, scalar output `loss`
<case>/data/<name>.npy  one file per input: K*batch rows, consecutive rows are consecutive batches
<case>/reference.json   results of PyTorch: losses of 12 steps, gradient and weight norms

Needs torch, onnx, onnxscript, onnxruntime and numpy.
"""
import collections, copy, io, json, math, pathlib, sys, warnings
import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
K, STEPS = 6, 12                       # different batches; steps (batches are cycled in order)
torch.set_num_threads(2)
warnings.filterwarnings("ignore")


# ---------------------------------------------------------------- the machinery

def perturb(model):
    """No two tensors are equal, and none is all zero: exporters may merge or drop such tensors."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() <= 1:
                p.add_(0.02 * torch.randn_like(p))
        for n, b in model.named_buffers():
            if b.is_floating_point():
                b.add_(0.05 * torch.rand_like(b))


def batches(data, batch, double=False):
    def cast(t):
        return t.double() if double and t.is_floating_point() else t
    return [[cast(torch.from_numpy(v[k * batch:(k + 1) * batch])) for v in data.values()] for k in range(K)]


def train(model, data, batch, opt, loss_of, double=False):
    """The trajectory of one run: (losses, first gradient norms, norms of the weights after)."""
    model = copy.deepcopy(model).train()
    model = model.double() if double else model
    args = dict(opt)
    kind = args.pop("name")
    if kind == "adamw":
        args["betas"] = (args.pop("beta1"), args.pop("beta2"))
    o = (torch.optim.SGD if kind == "sgd" else torch.optim.AdamW)(model.parameters(), **args)
    rows, losses, grads = batches(data, batch, double), [], {}
    norm = lambda t: float(t.detach().double().norm())
    for step in range(STEPS):
        o.zero_grad()
        loss = loss_of(model, rows[step % K])
        loss.backward()
        if step == 0:
            grads = {n: norm(p.grad) for n, p in model.named_parameters() if p.grad is not None}
        o.step()
        losses.append(float(loss.detach()))
    return losses, grads, {n: norm(p) for n, p in model.named_parameters()}


def export(model, args, inputs, outputs, exporter):
    model = copy.deepcopy(model).train()
    if exporter == "dynamo":           # torch.export; no BatchNorm here: it would become inference mode
        p = torch.onnx.export(model, args, dynamo=True, optimize=False, verbose=False,
                              input_names=inputs, output_names=outputs)
        m = p.model_proto
    else:
        f = io.BytesIO()
        torch.onnx.export(model, args, f, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, opset_version=17,
                          input_names=inputs, output_names=outputs)
        m = onnx.load_from_string(f.getvalue())
    return scrub(m)


def scrub(m):
    """Removes source locations: they hold this machine's paths."""
    def clean(x):
        for field in ("doc_string", "metadata_props"):
            if field in x.DESCRIPTOR.fields_by_name:
                x.ClearField(field)
    def graph(g):
        for x in [g, *g.node, *g.initializer, *g.value_info, *g.input, *g.output]:
            clean(x)
        for n in g.node:
            for a in n.attribute:
                clean(a)
                if a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
    clean(m)
    graph(m.graph)
    for f in m.functions:
        for x in [f, *f.node]:
            clean(x)
    raw = m.SerializeToString()
    assert not any(p.encode() in raw for p in (str(HERE), sys.prefix, "site-packages")), "path left in model"
    return m


def forward(m, feeds):
    """Outputs of the model; onnxruntime, or onnx's own evaluator where that cannot (BatchNorm training)."""
    try:
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        so = ort.SessionOptions()
        so.intra_op_num_threads = 2
        s = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
        return "onnxruntime", [s.run(None, f) for f in feeds]
    except Exception as e:
        from onnx.reference import ReferenceEvaluator
        r = ReferenceEvaluator(m)
        return f"onnx.reference ({type(e).__name__})", [r.run(None, f) for f in feeds]


def verify(m, model, data, batch, loss_of, loss_in):
    """Weights kept under their names and values; loss of every batch as PyTorch's. Returns a report."""
    onnx.checker.check_model(m, full_check=True)
    init = {i.name: onnx.numpy_helper.to_array(i) for i in m.graph.initializer}
    for n, p in model.named_parameters():
        assert n in init and np.array_equal(init[n], p.detach().numpy()), f"weight {n} not in the model as it is"
    names = {n for n, _ in model.named_parameters()}
    frozen = [n for n, a in init.items() if n not in names and a.dtype == np.float32]
    buffers = {n for n, _ in model.named_buffers()}
    assert set(frozen) <= buffers, f"float constants as initializers: {set(frozen) - buffers}"
    for n in m.graph.node:             # BatchNorm must be the training kind
        if n.op_type == "BatchNormalization":
            assert any(a.name == "training_mode" and a.i == 1 for a in n.attribute), "inference BatchNorm"
    for v in [*m.graph.input, *m.graph.output]:
        assert all(d.HasField("dim_value") for d in v.type.tensor_type.shape.dim), f"{v.name} not static"
    feeds = [{i.name: data[i.name][k * batch:(k + 1) * batch] for i in m.graph.input} for k in range(K)]
    worst = 0.0
    for move in (0.0, 0.1):            # also with other weights: none may be constants elsewhere in the file
        moved, other = copy.deepcopy(model).train(), onnx.ModelProto()
        other.CopyFrom(m)
        with torch.no_grad():
            for p in moved.parameters():
                p.mul_(1 + move * torch.randn_like(p))
        values = dict(moved.named_parameters())
        for i in other.graph.initializer:
            if i.name in values:
                i.CopyFrom(onnx.numpy_helper.from_array(values[i.name].detach().numpy(), i.name))
        by, outs = forward(other, feeds)
        for k, row in enumerate(batches(data, batch)):
            want = float(loss_of(moved, row).detach())
            got = float(outs[k][0]) if loss_in else float(loss_of(lambda *_: torch.from_numpy(outs[k][0]), row))
            worst = max(worst, abs(got - want) / abs(want))
    assert worst <= 1e-5, f"forward differs by {worst:.1e}"
    return by, worst, frozen


def histogram(m):
    return dict(collections.Counter(n.op_type for n in m.graph.node).most_common())


def make(name, model, data, batch, sgd, adamw, exporter="torchscript", outputs=("loss", "logits"),
         loss=None, loss_of=None, post=None, also=None):
    """One case folder. sgd, adamw: (lr, weight_decay). loss: {"kind", "label"} when it is not in the graph.
    post edits the exported model; also: {"file.onnx": exporter} further exports of the same model."""
    perturb(model)
    data = {n: np.ascontiguousarray(v) for n, v in data.items()}
    assert all(len(v) == K * batch for v in data.values())
    loss_of = loss_of or (lambda f, row: f(*row)[0])
    fed = [n for n in data if not loss or n != loss["label"]]
    folder = HERE / name
    (folder / "data").mkdir(parents=True, exist_ok=True)
    first = dict(zip(data, batches(data, batch)[0]))
    for file, how in {"model.onnx": exporter, **(also or {})}.items():
        m = export(model, tuple(first[n] for n in fed), fed, list(outputs), how)
        m = post(m) if post else m
        by, err, frozen = verify(m, model, data, batch, loss_of, not loss)
        (folder / file).write_bytes(m.SerializeToString())
        print(f"{name}/{file} ({how}, opset {m.opset_import[0].version}): forward error {err:.1e} by {by}; "
              f"{len(m.graph.node)} nodes {histogram(m)}", flush=True)
    runs = []
    for opt in ({"name": "sgd", "lr": sgd[0], "momentum": 0.9, "weight_decay": sgd[1]},
                {"name": "adamw", "lr": adamw[0], "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
                 "weight_decay": adamw[1]}):
        losses, grads, after = train(model, data, batch, opt, loss_of)
        l64, _, a64 = train(model, data, batch, opt, loss_of, double=True)
        dl = max(abs(a - b) / abs(b) for a, b in zip(losses, l64))
        dn = max((abs(after[n] - a64[n]) / a64[n], n) for n in a64)
        print(f"  {opt['name']:5} " + " ".join(f"{x:.3f}" for x in losses) +
              f" | float64: losses {dl:.0e}, norms {dn[0]:.0e} ({dn[1]})", flush=True)
        assert dl < 1e-4 and dn[0] < 1e-4, "trajectory too sensitive to rounding for a 1e-3 comparison"
        assert np.mean(losses[K:]) < 0.9 * np.mean(losses[:K]), "loss does not fall"
        assert max(losses) < 1.5 * losses[0], "loss blows up"
        runs.append({"optimizer": opt, "losses": losses, "grad_norms": grads, "param_norms_after": after})
    for n, v in data.items():
        np.save(folder / "data" / f"{n}.npy", v)
    ref = {"inputs": {n: {"shape": [batch, *v.shape[1:]], "dtype": str(v.dtype)} for n, v in data.items()},
           "batch": batch, "batches": K, "steps": STEPS, "outputs": list(outputs), "not_trained": frozen}
    ref |= {"loss": loss} if loss else {}
    ref |= {"runs": runs, "exporter": exporter, "torch": torch.__version__.split("+")[0]}
    (folder / "reference.json").write_text(json.dumps(ref, indent=1) + "\n")


# ---------------------------------------------------------------- data

def vectors(n, width, classes):
    """Float rows with the label of a hidden linear teacher."""
    x = torch.randn(n, width)
    return x.numpy(), (x @ torch.randn(width, classes)).argmax(1).numpy()


def images(n, channels, h, w, classes, noise=0.5):
    """Noisy copies of one template per class."""
    y = torch.arange(n) % classes
    y = y[torch.randperm(n)]
    t = F.interpolate(torch.randn(classes, channels, 4, 4), (h, w), mode="bilinear")
    return (t[y] + noise * torch.randn(n, channels, h, w)).numpy(), y.numpy()


def segments(n, channels, size, classes, noise=0.5):
    """Images of smooth regions, one noisy colour per class, and the class of each pixel."""
    y = F.interpolate(torch.randn(n, classes, 4, 4), (size, size), mode="bilinear").argmax(1)
    colour = torch.randn(classes, channels)
    return (colour[y].permute(0, 3, 1, 2) + noise * torch.randn(n, channels, size, size)).numpy(), y.numpy()


def tokens(n, length, vocab):
    """Sequences x' = 3x + 7 mod vocab, one in ten replaced by noise; ids and next ids."""
    x = [torch.randint(vocab, (n,))]
    for _ in range(length):
        step = (3 * x[-1] + 7) % vocab
        x.append(torch.where(torch.rand(n) < 0.1, torch.randint(vocab, (n,)), step))
    x = torch.stack(x, 1)
    return x[:, :-1].numpy(), x[:, 1:].numpy()


# ---------------------------------------------------------------- models

class MLP(nn.Module):
    def __init__(s, sizes, loss=True):
        super().__init__()
        s.fc = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        s.loss = loss

    def forward(s, x, label=None):
        for f in s.fc[:-1]:
            x = F.relu(f(x))
        x = s.fc[-1](x)
        return (F.cross_entropy(x, label), x) if s.loss else x


class LeNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv1, s.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        s.fc1, s.fc2, s.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
        for p in s.parameters():
            if p.dim() > 1:
                nn.init.kaiming_normal_(p)

    def forward(s, x, label):
        x = F.max_pool2d(F.relu(s.conv1(x)), 2)
        x = F.max_pool2d(F.relu(s.conv2(x)), 2)
        x = s.fc3(F.relu(s.fc2(F.relu(s.fc1(torch.flatten(x, 1))))))
        return F.cross_entropy(x, label), x


class ResBlock(nn.Module):
    def __init__(s, a, b, stride):
        super().__init__()
        s.conv1, s.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        s.conv2, s.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        s.down = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride > 1 else None

    def forward(s, x):
        y = s.bn2(s.conv2(F.relu(s.bn1(s.conv1(x)))))
        return F.relu(y + (s.down(x) if s.down else x))


class ResNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv1, s.bn1 = nn.Conv2d(3, 12, 3, 1, 1, bias=False), nn.BatchNorm2d(12)
        s.layers = nn.Sequential(ResBlock(12, 12, 1), ResBlock(12, 24, 2), ResBlock(24, 40, 2))
        s.fc = nn.Linear(40, 10)

    def forward(s, x, label):
        x = s.layers(F.relu(s.bn1(s.conv1(x))))
        x = s.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
        return F.cross_entropy(x, label), x


class InceptionBlock(nn.Module):
    """1x1, 1x1-3x3, 1x1-5x5 and pool-1x1 side by side, `b` channels of each."""
    def __init__(s, a, b):
        super().__init__()
        s.one, s.pooled = nn.Conv2d(a, b, 1), nn.Conv2d(a, b, 1)
        s.down3, s.three = nn.Conv2d(a, b, 1), nn.Conv2d(b, b, 3, padding=1)
        s.down5, s.five = nn.Conv2d(a, b, 1), nn.Conv2d(b, b, 5, padding=2)

    def forward(s, x):
        three, five = s.three(F.relu(s.down3(x))), s.five(F.relu(s.down5(x)))
        return F.relu(torch.cat((s.one(x), three, five, s.pooled(F.max_pool2d(x, 3, 1, 1))), 1))


class Inception(nn.Module):
    def __init__(s):
        super().__init__()
        s.stem, s.fc = nn.Conv2d(3, 12, 3, 2, 1), nn.Linear(48, 4)
        s.blocks = nn.Sequential(InceptionBlock(12, 8), InceptionBlock(32, 12))
        for p in s.parameters():
            if p.dim() == 4:
                nn.init.kaiming_normal_(p)

    def forward(s, x, label):
        x = s.blocks(F.relu(s.stem(x)))
        x = s.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
        return F.cross_entropy(x, label), x


class UNet(nn.Module):
    """Down by a max pool and a strided convolution, up by a transposed convolution and a nearest resize."""
    def __init__(s, channels, c, classes):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 3, padding=1)
        s.enc1, s.enc2, s.down = conv(channels, c), conv(c, 2 * c), nn.Conv2d(2 * c, 4 * c, 3, 2, 1)
        s.mid, s.up2 = conv(4 * c, 4 * c), nn.ConvTranspose2d(4 * c, 2 * c, 2, 2)
        s.dec2, s.dec1, s.head = conv(4 * c, 2 * c), conv(3 * c, c), nn.Conv2d(c, classes, 1)
        for p in s.parameters():
            if p.dim() > 1:
                nn.init.kaiming_normal_(p)

    def forward(s, x, label):
        high = F.relu(s.enc1(x))
        low = F.relu(s.enc2(F.max_pool2d(high, 2)))
        x = F.relu(s.mid(F.relu(s.down(low))))
        x = F.relu(s.dec2(torch.cat((s.up2(x), low), 1)))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = s.head(F.relu(s.dec1(torch.cat((x, high), 1))))
        return F.cross_entropy(x, label), x


class GPTBlock(nn.Module):
    def __init__(s, c, heads):
        super().__init__()
        s.h = heads
        s.ln_1, s.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        s.c_attn = nn.Linear(c, 3 * c, bias=False)     # a key bias has no gradient: Adam would turn rounding into steps
        s.c_proj, s.c_fc, s.c_out = nn.Linear(c, c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(s, x):
        b, t, c = x.size()
        q, k, v = (y.view(b, t, s.h, c // s.h).transpose(1, 2) for y in s.c_attn(s.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + s.c_out(F.gelu(s.c_fc(s.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(s, vocab, length, c, heads, layers):
        super().__init__()
        s.wte, s.wpe = nn.Embedding(vocab, c), nn.Embedding(length, c)
        s.h = nn.ModuleList(GPTBlock(c, heads) for _ in range(layers))
        s.ln_f = nn.LayerNorm(c)
        for n, p in s.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.08)

    def forward(s, idx, targets):
        x = s.wte(idx) + s.wpe(torch.arange(idx.size(1)))
        for blk in s.h:
            x = blk(x)
        logits = F.linear(s.ln_f(x), s.wte.weight)     # tied with the embedding
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)), logits


class RMSNorm(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.weight = nn.Parameter(torch.ones(c))

    def forward(s, x):
        return s.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class LlamaBlock(nn.Module):
    def __init__(s, c, heads, kv, ff):
        super().__init__()
        s.h, s.kv, s.d = heads, kv, c // heads
        s.attn_norm, s.ffn_norm = RMSNorm(c), RMSNorm(c)
        lin = lambda a, b: nn.Linear(a, b, bias=False)
        s.wq, s.wk, s.wv, s.wo = lin(c, c), lin(c, kv * s.d), lin(c, kv * s.d), lin(c, c)
        s.w_gate, s.w_up, s.w_down = lin(c, ff), lin(c, ff), lin(ff, c)

    def rotate(s, x, cos, sin):
        half = torch.cat((-x[..., s.d // 2:], x[..., :s.d // 2]), -1)
        return x * cos + half * sin

    def forward(s, x, cos, sin, mask):
        b, t, c = x.shape
        y = s.attn_norm(x)
        split = lambda z, n: z.view(b, t, n, s.d).transpose(1, 2)
        q, k, v = split(s.wq(y), s.h), split(s.wk(y), s.kv), split(s.wv(y), s.kv)
        q, k = s.rotate(q, cos, sin), s.rotate(k, cos, sin)
        def repeat(z):                                  # grouped-query attention, as Hugging Face writes it
            return z[:, :, None].expand(b, s.kv, s.h // s.kv, t, s.d).reshape(b, s.h, t, s.d)
        w = torch.matmul(q, repeat(k).transpose(2, 3)) / math.sqrt(s.d)
        w = F.softmax(w.masked_fill(mask, float("-inf")), -1)
        x = x + s.wo(torch.matmul(w, repeat(v)).transpose(1, 2).reshape(b, t, c))
        y = s.ffn_norm(x)
        return x + s.w_down(F.silu(s.w_gate(y)) * s.w_up(y))


class Llama(nn.Module):
    def __init__(s, vocab, c, heads, kv, ff, layers):
        super().__init__()
        s.d = c // heads
        s.embed = nn.Embedding(vocab, c)
        s.layers = nn.ModuleList(LlamaBlock(c, heads, kv, ff) for _ in range(layers))
        s.norm, s.head = RMSNorm(c), nn.Linear(c, vocab, bias=False)

    def forward(s, idx, targets):
        x, t = s.embed(idx), idx.size(1)
        freq = 10000.0 ** (-torch.arange(0, s.d, 2).to(x.dtype) / s.d)
        angle = torch.arange(t).to(x.dtype)[:, None] * freq[None, :]
        angle = torch.cat((angle, angle), -1)
        mask = torch.ones(t, t, dtype=torch.bool).triu(1)
        for blk in s.layers:
            x = blk(x, angle.cos(), angle.sin(), mask)
        logits = s.head(s.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)), logits


class Tagger(nn.Module):
    """A tag for each token: an LSTM in both directions, a GRU and a plain recurrent layer."""
    def __init__(s, vocab, c, tags):
        super().__init__()
        s.emb, s.lstm = nn.Embedding(vocab, c), nn.LSTM(c, c, batch_first=True, bidirectional=True)
        s.gru, s.rnn = nn.GRU(2 * c, c, batch_first=True), nn.RNN(c, c, batch_first=True)
        s.head = nn.Linear(c, tags)

    def forward(s, idx, targets):
        x = s.rnn(s.gru(s.lstm(s.emb(idx))[0])[0])[0]
        logits = s.head(x)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)), logits


class ViT(nn.Module):
    """Patches of an image through the encoder of torch.nn: its nn.MultiheadAttention computes on [tokens, batch, width]."""
    def __init__(s, channels, patch, patches, width, heads, layers, classes):
        super().__init__()
        s.patch = nn.Conv2d(channels, width, patch, patch)
        s.token, s.pos_embedding = nn.Parameter(0.2 * torch.randn(1, 1, width)), nn.Parameter(0.2 * torch.randn(1, patches + 1, width))
        s.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=i > 0)
                                 for i in range(layers))
        for layer in s.layers:  # without biases: the loss does not depend on that of the keys
            layer.self_attn = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        s.head = nn.Linear(width, classes)

    def forward(s, image, label):
        x = s.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([s.token.expand(x.size(0), -1, -1), x], 1) + s.pos_embedding
        for layer in s.layers:
            x = layer(x)
        logits = s.head(x[:, 0])
        return F.cross_entropy(logits, label), logits


class MoE(nn.Module):
    """Two experts of `experts` for each row, by a dense dispatch: the weights of the others are zero."""
    def __init__(s, width, hidden, experts, classes):
        super().__init__()
        s.inp, s.norm, s.gate = nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, experts, bias=False)
        s.w_in = nn.Parameter(0.2 * torch.randn(experts, width, hidden))
        s.w_out = nn.Parameter(0.2 * torch.randn(experts, hidden, width))
        s.fc = nn.Linear(width, classes)

    def forward(s, x, label):
        x = torch.tanh(s.inp(x))
        y = s.norm(x)
        top, which = s.gate(y).topk(2, dim=-1)
        share = torch.zeros(y.size(0), s.w_in.size(0), dtype=y.dtype).scatter(1, which, F.softmax(top, -1))
        h = F.gelu(torch.einsum("bw,ewh->beh", y, s.w_in))
        x = x + torch.einsum("beh,ehw,be->bw", h, s.w_out, share)
        x = s.fc(x)
        return F.cross_entropy(x, label), x


# ---------------------------------------------------------------- cases

def mlp(name):
    x, y = vectors(K * 12, 37, 7)
    make(name, MLP([37, 53, 29, 7]), {"x": x, "label": y}, 12, (0.25, 1e-2), (1.5e-2, 0.1))


def mlp_no_loss(name):
    x, y = vectors(K * 16, 24, 5)
    make(name, MLP([24, 40, 5], loss=False), {"x": x, "label": y}, 16, (0.2, 1e-2), (1.5e-2, 0.1),
         outputs=("logits",), loss={"kind": "cross_entropy", "label": "label"},
         loss_of=lambda f, row: F.cross_entropy(f(row[0]), row[1]))


def lenet(name):
    x, y = images(K * 8, 1, 28, 28, 10)
    make(name, LeNet(), {"image": x, "label": y}, 8, (0.01, 1e-2), (1.5e-3, 0.1))


def resnet_tiny(name):
    x, y = images(K * 8, 3, 16, 16, 10)
    make(name, ResNet(), {"image": x, "label": y}, 8, (0.05, 1e-2), (4e-3, 0.1))


def gpt_tiny(name):
    x, y = tokens(K * 4, 32, 96)
    make(name, GPT(96, 32, 64, 4, 2), {"idx": x, "targets": y}, 4, (0.05, 1e-2), (2e-3, 0.1),
         also={"model_dynamo.onnx": "dynamo"})


def llama_tiny(name):
    x, y = tokens(K * 4, 24, 101)
    make(name, Llama(101, 48, 6, 2, 128, 2), {"idx": x, "targets": y}, 4, (0.05, 1e-2), (3e-3, 0.1),
         also={"model_dynamo.onnx": "dynamo"})


def moe_tiny(name):
    x, y = vectors(K * 16, 24, 6)
    make(name, MoE(24, 32, 6, 6), {"x": x, "label": y}, 16, (0.1, 1e-2), (1e-2, 0.1))


def inception_tiny(name):
    x, y = images(K * 8, 3, 16, 16, 4)
    make(name, Inception(), {"image": x, "label": y}, 8, (0.05, 1e-2), (5e-3, 0.1))


def unet_tiny(name):
    x, y = segments(K * 8, 2, 16, 4)
    make(name, UNet(2, 8, 4), {"image": x, "label": y}, 8, (0.02, 1e-2), (2e-3, 0.1))


def lstm_tiny(name):
    x, y = tokens(K * 8, 6, 12)
    make(name, Tagger(12, 16, 12), {"idx": x, "targets": y}, 8, (0.2, 1e-2), (1e-2, 0.1))


def vit_tiny(name):
    x, y = images(K * 8, 3, 12, 12, 5)
    make(name, ViT(3, 4, 9, 16, 4, 2, 5), {"image": x, "label": y}, 8, (0.05, 1e-2), (5e-3, 0.1), also={"model_dynamo.onnx": "dynamo"})


CASES = [mlp, mlp_no_loss, lenet, resnet_tiny, gpt_tiny, llama_tiny, moe_tiny, inception_tiny, unet_tiny, lstm_tiny, vit_tiny]

if __name__ == "__main__":
    for i, c in enumerate(CASES):
        if len(sys.argv) < 2 or c.__name__ in sys.argv[1:]:
            torch.manual_seed(1000 + i)
            c(c.__name__)
