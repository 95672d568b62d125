#!/usr/bin/env python3
"""divisi-lsp-server as an editor talks to it: it starts, marks a fault where it is, explains an operation, and finds a definition.

    language_server.py --build DIR

Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

TEXT = """func.func @loss(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x2xf32> {graph.parameter = "w"}) -> tensor<4x2xf32> {
  %y = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
"""
WRONG = TEXT.replace("%w: tensor<8x2xf32>", "%w: tensor<7x2xf32>").replace(", tensor<8x2xf32>)", ", tensor<7x2xf32>)")


class Server:
    def __init__(self, program):
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number, self.diagnostics = 0, {}

    def send(self, method, params, number=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server ended"
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def ask(self, method, params):
        """The result of a request; what the server says meanwhile is kept."""
        self.number += 1
        self.send(method, params, self.number)
        while True:
            message = self.read()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def open(self, uri, text):
        """The diagnostics of a file."""
        self.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "mlir", "version": 1, "text": text}})
        while uri not in self.diagnostics:
            self.read()
        return self.diagnostics[uri]


def tests(server):
    able = server.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["capabilities"]
    assert able.get("hoverProvider") and able.get("definitionProvider"), able
    server.send("initialized", {})
    yield "starts"

    assert server.open("file:///right.mlir", TEXT) == [], server.diagnostics
    fault = server.open("file:///wrong.mlir", WRONG)[0]
    assert fault["range"]["start"]["line"] == 1 and "different size" in fault["message"], fault
    yield "marks a matmul whose sizes differ, in its line"

    place = {"textDocument": {"uri": "file:///right.mlir"}, "position": {"line": 1, "character": 9}}
    text = json.dumps(server.ask("textDocument/hover", place))
    assert "graph.matmul" in text, text
    yield "says what an operation is"

    place["position"] = {"line": 2, "character": 10}
    (found,) = server.ask("textDocument/definition", place)
    assert found["range"]["start"] == {"line": 1, "character": 2}, found
    yield "finds the definition of a value"

    assert server.ask("shutdown", None) is None
    server.send("exit", None)
    assert server.process.wait(30) == 0
    yield "ends"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", required=True, type=pathlib.Path)
    server, passed, failed = Server(p.parse_args().build / "bin/divisi-lsp-server"), 0, 0
    try:
        for name in tests(server):
            print(f"ok   {name}", flush=True)
            passed += 1
    except (AssertionError, ValueError, OSError) as error:
        print(f"FAIL {error}", flush=True)
        failed = 1
    finally:
        server.process.kill()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
