"""Rules for drawing operators: RULES has, by operator, the rules with their opsets."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass
class Rule:
    draw: Callable  # (graph, operator): adds the node, after the nodes that it needs
    since: int
    until: int


RULES = {}


def rule(*operators, since=13, until=99):
    """Registers a function as the rule of operators, for opsets from `since` to `until`."""

    def register(function):
        for operator in operators:
            RULES.setdefault(operator, []).append(Rule(function, since, until))
        return function

    return register


from rules import contraction, elementwise, indexing, integers, network, rearrange, recurrent, reduction, sampling, sequence, shape  # noqa: E402,F401
