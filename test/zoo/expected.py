"""What of the zoo is refused, with a part of the reason that the compiler or the exporter gives, and which functions differ from PyTorch's."""

MICROBATCHES = ("microbatches=2", "stage=2, microbatches=2", "stage=2, data=2")
# (models, ways, a part of the message)
REFUSALS = [
    (["CLIP"], MICROBATCHES, "needs the whole batch at once"),  # its loss compares all samples of a batch
    (["MoE"], MICROBATCHES, "is summed over all microbatches"),  # its load-balancing loss is a product of means over the batch
]


def refusal(model, way):
    return next((text for models, ways, text in REFUSALS if model in models and way in ways), "")


# (functions, reason)
DIFFERENT = [
    (["half", "bfloat16"], "16 bits are read as float32 (docs/onnx.md)"),
    (["native_layer_norm", "native_batch_norm", "_native_batch_norm_legit"], "PyTorch's gradient leaves out the mean and the deviation, which are results, too"),
    (["index_fill"], "an index that repeats counts once in PyTorch's gradient of the value"),
    (["nn.functional.multi_head_attention_forward"], "the sample has dropout"),
    (["nn.functional.avg_pool2d", "nn.functional.avg_pool3d", "nn.AvgPool2d", "nn.AvgPool3d"], "TorchScript's exporter drops divisor_override, and the evaluator lacks ceil_mode"),
    (["nn.functional.normalize"], "the gradient of a single element is zero, the difference of large numbers"),
]


def of_function(name):
    return next((reason for names, reason in DIFFERENT if name in names), "")
