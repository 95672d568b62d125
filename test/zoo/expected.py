"""What of the zoo is refused, with a part of the reason that the compiler or the exporter gives."""

# (model, way): a part of the message
REFUSALS = {
}


def refusal(model, way):
    return REFUSALS.get((model, way), "")
