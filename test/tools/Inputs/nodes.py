"""Identities in a dump. `nodes.py strip` copies it without them; `nodes.py check FILE ...` exits with 1 if an operation of graph or dist has
none, or a function one twice; `nodes.py same FILE FILE` if the files have different ones."""
import collections
import re
import sys

NODE = r'graph\.node = "((?:[^"\\]|\\.)*)"'


def strip(text):
    text = re.sub(r"\{" + NODE + r"\} ?", "", text)
    return re.sub(NODE + r", |, " + NODE, "", text)


def check(text):
    wrong = []
    for function in re.split(r"^  func\.func ", text, flags=re.M)[1:]:
        for line in function.splitlines():
            if re.search(r"(= |exec\.call )(graph|dist)\.\w", line) and not re.search(NODE, line):
                wrong.append("no identity: " + line.strip()[:150])
        counts = collections.Counter(re.findall(NODE, function))
        wrong += [f"{count} times in @{function[1:30]}: {node}" for node, count in counts.items() if count > 1]
    return wrong


if __name__ == "__main__":
    command, *files = sys.argv[1:]
    if command == "strip":
        sys.stdout.write(strip(sys.stdin.read()))
        sys.exit()
    texts = [open(file).read() for file in files]
    if command == "check":
        wrong = [line for text in texts for line in check(text)] + [] if all(re.search(NODE, text) for text in texts) else ["no identity at all"]
    else:
        first, second = (sorted(re.findall(NODE, text)) for text in texts)
        wrong = [] if first == second and first else [f"{len(first)} and {len(second)} identities, not the same"]
    print("\n".join(wrong))
    sys.exit(bool(wrong))
