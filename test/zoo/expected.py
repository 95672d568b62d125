"""What of the zoo is refused, with a part of the reason that the compiler or the exporter gives."""

MICROBATCHES = ("microbatches=2", "stage=2, microbatches=2", "stage=2, data=2")
# (models, ways, a part of the message)
REFUSALS = [
    (["CLIP"], MICROBATCHES, "needs the whole batch at once"),  # its loss compares all samples of a batch
    (["MoE"], MICROBATCHES, "is summed over all microbatches"),  # its load-balancing loss is a product of means over the batch
]


def refusal(model, way):
    return next((text for models, ways, text in REFUSALS if model in models and way in ways), "")
