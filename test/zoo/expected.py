"""What of the zoo is refused, with a part of the reason that the compiler or the exporter gives."""

# (model, way): a part of the message
REFUSALS = {
    # Each text is compared with every image of the batch.
    ("CLIP", "microbatches=2"): "needs the whole batch at once",
    ("CLIP", "stage=2, microbatches=2"): "needs the whole batch at once",
}


def refusal(model, way):
    return REFUSALS.get((model, way), "")
