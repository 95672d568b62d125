"""Elementwise operators, with broadcasting."""

from graph import FLOAT, Reject
from rules import rule


def positive(g, x, least=0.3):
    """Values above a bound."""
    kind = g.between(0, 2)
    if kind == 0:
        x = g.add("Abs", x)
    elif kind == 1:
        x = g.add("Mul", x, x)
    else:
        x = g.add("Exp", x)
    return g.add("Add", x, g.scalar(least))


def inside(g, x, bound=0.9):
    """Values between -bound and bound."""
    return g.add("Mul", g.add("Tanh", x), g.scalar(bound))


@rule("Abs", "Asinh", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Neg", "Round", "Sign", "Sin", "Relu", "Sigmoid", "Softplus",
      "Softsign", "Tanh", "Identity", "HardSwish", "Elu", "Cosh", "Sinh")
def unary(g, op):
    if op == "HardSwish" and g.opset < 14:
        raise Reject
    attributes = {"alpha": g.of(0.5, 1.0, 1.5)} if op == "Elu" and g.chance(0.5) else {}
    g.add(op, g.pick(), **attributes)


@rule("Mish", since=18)
def mish(g, op):
    g.add(op, g.pick())


@rule("Acos", "Asin", "Atanh", "Tan")
def bounded(g, op):
    g.add(op, inside(g, g.pick()))


@rule("Log", "Sqrt", "Reciprocal")
def of_positive(g, op):
    g.add(op, positive(g, g.pick()))


@rule("Acosh")
def above_one(g, op):
    g.add(op, positive(g, g.pick(), 1.2))


@rule("Celu", "LeakyRelu", "ThresholdedRelu")
def with_alpha(g, op):
    g.add(op, g.pick(), **({"alpha": g.of(0.1, 0.5, 1.3)} if g.chance(0.6) else {}))


@rule("HardSigmoid", "Selu")
def with_two(g, op):
    names = ("alpha", "beta") if op == "HardSigmoid" else ("alpha", "gamma")
    g.add(op, g.pick(), **({names[0]: g.of(0.3, 1.2), names[1]: g.of(0.4, 1.1)} if g.chance(0.5) else {}))


@rule("Shrink")
def shrink(g, op):
    g.add(op, g.pick(), lambd=g.of(0.2, 0.5), bias=g.of(0.0, 0.2, 0.5))


@rule("Gelu", since=20)
def gelu(g, op):
    g.add(op, g.pick(), approximate=g.of("none", "tanh", None))


@rule("Swish", since=24)
def swish(g, op):
    g.add(op, g.pick(), alpha=g.of(None, 0.7, 1.5))


@rule("PRelu")
def prelu(g, op):
    x = g.pick(least=1)
    g.add(op, x, g.parameter([1 if g.chance(0.3) else s for s in x.shape[g.between(0, x.rank - 1):]]))


@rule("Clip")
def clip(g, op):
    x = g.pick()
    low = g.scalar(g.of(-0.8, -0.3, 0.0)) if g.chance(0.7) else None
    high = g.scalar(g.of(0.1, 0.5, 1.0)) if g.chance(0.7) else None
    g.add(op, x, low, high)


@rule("Dropout")
def dropout(g, op):
    """With ratio 0, so that nothing is random."""
    g.add(op, g.pick(), g.scalar(0.0), g.constant(g.chance(0.5), bool) if g.chance(0.5) else None)


@rule("Add", "Sub", "Mul")
def binary(g, op):
    x = g.pick()
    y = g.near(x)
    g.add(op, *((x, y) if g.chance(0.5) else (y, x)))


@rule("Div")
def division(g, op):
    x = g.pick()
    y = g.near(x)
    x, y = (x, y) if g.chance(0.5) else (y, x)
    g.add(op, x, positive(g, y, 0.5))


@rule("Pow")
def power(g, op):
    x = g.pick()
    kind = g.between(0, 2)
    if kind == 0:
        g.add(op, x, g.scalar(g.of(1.0, 2.0, 3.0)))
    elif kind == 1:
        g.add(op, positive(g, x), g.scalar(g.of(-1.5, 0.5, 1.7)))
    else:
        g.add(op, positive(g, x), g.near(x))


@rule("Mod")
def modulo(g, op):
    if g.chance(0.5):
        g.add(op, g.pick(), g.scalar(g.of(0.4, 0.9, -0.7)), fmod=1)
    else:
        g.add(op, g.pick("int"), g.constant(g.of(2, 3, -4), "int64"), fmod=g.of(None, 0, 1))


@rule("Max", "Min", "Mean", "Sum")
def variadic(g, op):
    x = g.pick()
    g.add(op, x, *(g.near(x) for _ in range(g.between(0, 2))))


@rule("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def comparison(g, op):
    if op == "Equal" or g.chance(0.3):
        x = g.pick("int")
        y = g.pick("int") if g.chance(0.2) else g.constant(g.between(-3, 3), x.array.dtype)
        if x.array.dtype != y.array.dtype:
            raise Reject
    else:
        x = g.pick()
        y = g.near(x)
    if x.constant and y.constant:
        raise Reject
    g.add(op, x, y)


@rule("IsInf", "IsNaN")
def special(g, op):
    """Infinite and undefined elements in a branch of Where, which must not affect the gradients of the other branch."""
    attributes = {"detect_negative": g.of(0, 1), "detect_positive": g.of(0, 1)} if op == "IsInf" and g.chance(0.5) else {}
    g.add(op, g.pick(), **attributes)


@rule("And", "Or", "Xor")
def logical(g, op):
    x = g.pick("bool")
    others = [v for v in g.pool if v.kind == "bool" and v.shape == x.shape]
    y = g.draw.choice(others) if others and g.chance(0.7) else g.constant(g.chance(0.5), bool)
    g.used.add(y.name)
    g.add(op, x, y)


@rule("Not")
def negation(g, op):
    g.add(op, g.pick("bool"))


@rule("Where")
def where(g, op):
    x = g.pick()
    y = g.near(x)
    masks = [v for v in g.pool if v.kind == "bool" and all(a in (1, b) for a, b in zip(v.shape[::-1], x.shape[::-1]))]
    mask = g.draw.choice(masks) if masks and g.chance(0.7) else g.add("Greater", x, g.scalar(g.of(-0.2, 0.1)))
    g.used.add(mask.name)
    g.add(op, mask, *((x, y) if g.chance(0.5) else (y, x)))


@rule("Cast")
def cast(g, op):
    """To integers and booleans, which have no gradient, and back."""
    kind = g.of("float", "int", "bool")
    x = g.pick(kind)
    to = {"float": g.of(6, 7, 9), "int": g.of(1, 6, 7), "bool": g.of(1, 7)}[kind]
    if kind == "float" and to in (6, 7):
        x = g.add("Mul", x, g.scalar(2.7))
    g.add(op, x, to=to)


@rule("CastLike", since=15)
def cast_like(g, op):
    g.add(op, g.pick(g.of("int", "bool")), g.pick("float"))


@rule("SwiGLU", since=28)
def swiglu(g, op):
    x = g.pick()
    other = g.add("Mul", x, g.near(x)) if g.chance(0.5) else g.parameter(x.shape)
    if other.shape != x.shape:
        raise Reject
    g.add(op, x, other, alpha=g.of(None, 0.7, 1.5))
