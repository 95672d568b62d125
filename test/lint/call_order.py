"""Calls of which two arguments create operations. C++ leaves open which of them comes first, and compilers differ: the same model
would become other programs, which refuse each other's checkpoints and plans.

An operation is created by a function of a builder that is not const and returns a value, by `SomeOp::create`, by a function or lambda
of the file, or of a header that it includes, in whose body one is, and by a function from elsewhere that gets a builder."""

import re

FOLDERS = ("dialects/", "step/", "passes/", "codegen/", "compiler/", "tools/")
# By type: the headers whose functions it has. B, N and S are short names.
GRAPH, CHECKED = ("dialects/Graph/GraphBuilder",), ("dialects/Graph/GraphBuilder", "compiler/Import/CheckedBuilder")
NODE, SCALAR = (*CHECKED, "compiler/Import/NodeImporter"), ("codegen/Lowering/ScalarBuilder",)
BUILDERS = {"GraphBuilder": GRAPH, "B": GRAPH, "CheckedBuilder": CHECKED, "NodeImporter": NODE, "N": NODE, "ScalarBuilder": SCALAR, "S": SCALAR, "OpBuilder": ()}
OWN = {headers[-1]: headers for headers in (GRAPH, CHECKED, NODE, SCALAR)}
VARIABLE = re.compile(rf"(?<![\w<])({'|'.join(BUILDERS)})\s*&?\s*([a-z]\w*)\s*([,;()={{])")
CALLBACK = r"\b(?:Load|function_ref<(?:mlir::)?Values?\([^<>]*\)>) (\w+)[,)]"
VALUES = r"(?:mlir::)?(?:Values?|SmallVector<Value>|llvm::SmallVector<Value>|Operation \*|Results)"
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "decltype", "catch", "alignof", "assert", "static_cast", "defined"}
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*(?:<[^<>;(){}]*>[^<>;(){}]*)*>)?\s*\(")
LAMBDA = re.compile(r"\b(?:auto|function_ref<[^;=]*>|function<[^;=]*>)\s*&?\s*(\w+)\s*=\s*\[")
BRACKET, SEPARATOR = re.compile(r"[][(){}]"), re.compile(r"[][(){},]")


def plain(text):
    """The text with blanks for comments and strings."""
    return NOISE.sub(lambda match: match[0] if match[0].endswith('.h"') else re.sub(r"[^\n]", " ", match[0]), text)


def end_of(text, start):
    """The position of the bracket that closes the one at `start`."""
    depth = 0
    for match in BRACKET.finditer(text, start):
        depth += 1 if match[0] in "([{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def without_lambdas(text):
    """The text with blanks for the bodies of lambdas, which run later."""
    out, position = [], 0
    for match in re.finditer(r"(?<![\w\])])\s*\[[^\[\]]*\]\s*(?=[({])", text):
        if match.start() < position:
            continue
        i = match.end()
        if text[i] == "(":
            i = end_of(text, i) + 1
        brace = text.find("{", i)
        if brace < 0 or not re.fullmatch(r"[\s\w:<>*&-]*", text[i:brace]):
            continue
        end = end_of(text, brace)
        out.append(text[position:match.start()] + " " * (end + 1 - match.start()))
        position = end + 1
    return "".join(out) + text[position:]


def arguments_of(text, start):
    """The arguments in the brackets that open at `start`."""
    depth, arguments, begin = 0, [], start + 1
    for match in SEPARATOR.finditer(text, start):
        if match[0] != ",":
            depth += 1 if match[0] in "([{" else -1
        if depth == 0 or match[0] == "," and depth == 1:
            arguments.append(text[begin : match.start()])
            begin = match.end()
        if depth == 0:
            break
    return arguments


def bodies_of(text):
    """Name and body of each function and named lambda that the text defines."""
    for match in CALL.finditer(text):
        if match[1] in KEYWORDS:
            continue
        end = end_of(text, match.end() - 1)
        tail = re.match(r"\)\s*(?:const)?\s*(?:override|final)?\s*(?:->\s*[\w:<>]+\s*)?\{", text[end : end + 80])
        if tail and re.search(r"[\w>&*\]]\s+[&*]?(?:\w+::)*$", text[: match.start()][-60:]) and not re.search(r"\b(?:return|else|new)\s+$", text[: match.start()][-10:]):
            start = end + tail.end() - 1
            yield match[1], text[start : end_of(text, start)]
    for match in LAMBDA.finditer(text):
        brace = text.find("{", end_of(text, match.end() - 1))
        yield match[1], text[brace : end_of(text, brace)]


class Tree:
    """What creates operations in the files of a tree."""

    def __init__(self, texts):
        self.texts = texts
        self.methods = {}
        for header in OWN:
            declared = re.finditer(rf"^  (?:template <[^>]*> )?{VALUES}\s*&?(\w+)(\()", texts.get(f"{header}.h", ""), re.MULTILINE)
            self.methods[header] = {match[1] for match in declared if not re.match(r"\)\s*const\b", match.string[end_of(match.string, match.start(2)) :])}
        self.members = {(match[1], match[2]) for path, text in texts.items() if path.endswith(".h") for match in VARIABLE.finditer(text) if match[3] == ";"}
        self.known = {path: self.builders(text) for path, text in texts.items()}
        self.headers = {path: self.included(path, set()) for path in texts}
        # By file: the functions that create operations when they are called by their names alone.
        self.local = {path: {name for header in OWN.get(path.rsplit(".", 1)[0], ()) for name in self.methods[header]} for path in texts}
        for path, text in texts.items():
            self.local[path].update(re.findall(CALLBACK, text))
        bodies = {path: [(name, without_lambdas(body)) for name, body in bodies_of(text)] for path, text in texts.items()}
        self.defined = {path: {name for name, _ in found} for path, found in bodies.items()}
        declares = {path: set(re.findall(r"(\w+)\(", text)) for path, text in texts.items() if path.endswith(".h")}
        users = {header: [path for path in texts if header in self.headers[path]] for header in declares}
        grown = True
        while grown:
            grown = False
            for path, found in bodies.items():
                for name, body in found:
                    if name in self.local[path] or not self.creates(path, body):
                        continue
                    grown = True
                    self.local[path].add(name)
                    for header in self.headers[path] | {path}:
                        if name in declares.get(header, ()) and header.rsplit("/", 1)[0] == path.rsplit("/", 1)[0]:
                            for user in users[header]:
                                self.local[user].add(name)

    def included(self, path, seen):
        """The headers of the tree that a file includes, through others too."""
        for name in re.findall(r'#include "([^"]*)"', self.texts[path]):
            if name in self.texts and name not in seen:
                seen.add(name)
                self.included(name, seen)
        return seen

    def builders(self, text):
        """The builders that a text names, and their creating functions."""
        found = {}
        for kind, name in [*self.members, *((match[1], match[2]) for match in VARIABLE.finditer(text))]:
            found.setdefault(name, {"create", "createOrFold", "clone"}).update(*(self.methods[header] for header in BUILDERS[kind]))
        return found

    def creates(self, path, text):
        """Whether evaluating a piece of a file creates operations."""
        builders = self.known[path]
        for match in CALL.finditer(text):
            before, name = text[: match.start()][-80:], match[1]
            owner = re.search(r"(\w+)\s*(?:\.|->|::)\s*(?:template\s+)?$", before)
            if owner and (name in builders.get(owner[1], ()) or name == "create" and owner[1].endswith("Op")):
                return True
            if name in KEYWORDS or name[0].isupper():
                continue
            own = not re.search(r"[.>:]\s*$", before) or (owner and owner[1] == "this")
            if own and name in self.local[path]:
                return True
            if not (own and name in self.defined[path]) and arguments_of(text, match.end() - 1)[0].strip() in builders:
                return True
        return False


def check(files, text_of):
    """(path, line, message) of each call with two arguments that create operations."""
    tree = Tree({path: plain(text_of(path)) for path in files if path.startswith(FOLDERS) and path.endswith((".cpp", ".h"))})
    for path, text in tree.texts.items():
        for match in CALL.finditer(text):
            if match[1] in KEYWORDS or match[1].isupper():  # a macro's arguments are no arguments of a call
                continue
            arguments = arguments_of(text, match.end() - 1)
            if len(arguments) > 1 and sum(tree.creates(path, without_lambdas(argument)) for argument in arguments) > 1:
                line = text.count("\n", 0, match.start()) + 1
                yield path, line, f"{match[1]}: two arguments create operations, in an order that C++ leaves open: give them variables"
