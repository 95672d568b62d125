"""The windows of tokens that a program is fed, from its seed: an independent account of runtime/data/Shuffle.h."""

import math

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
ROUNDS = 24


def mix(x):
    """splitmix64's finalizer."""
    x = (x + GOLDEN) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def order(seed, epoch, count, first=None):
    """The permutation of range(count), or its beginning: a Feistel network on a table, of which positions behind the last are passed over."""
    rows = 2 * math.ceil(math.sqrt(count) / 2)
    columns = -(-count // rows)
    start = mix(seed) ^ mix(~epoch & WORD)
    keys = [mix((start + r * GOLDEN) & WORD) for r in range(ROUNDS)]

    def at(position):
        while True:
            row, column = divmod(position, columns)
            for first, second in zip(keys[::2], keys[1::2]):
                row = (row + (mix(first ^ column) * rows >> 64)) % rows
                column = (column + (mix(second ^ row) * columns >> 64)) % columns
            position = row * columns + column
            if position < count:
                return position

    return [at(position) for position in range(count if first is None else first)]


def windows(files, length):
    """(tokens, next tokens) of every window of `files`, which are arrays, in their order."""
    starts = [(file, start) for file in files for start in range(0, len(file) - length, length)]
    return [(file[start : start + length], file[start + 1 : start + 1 + length]) for file, start in starts]
