#!/usr/bin/env python3
"""Shows that each check of lint.py fails on a bad sample, and that a good tree passes."""

import pathlib
import subprocess
import tempfile
import unittest

import lint
import op_docs


class LintTest(unittest.TestCase):
    def findings(self, files, tracked=True):
        """Findings for a tree with these files; values are text or bytes. Top folders get a README."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for path, content in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
            for top in {path.split("/")[0] for path in files if "/" in path and not path.startswith("bare")}:
                (root / top / "README.md").write_text("What lives here.\n")
            if tracked:
                subprocess.run(["git", "-C", folder, "add", "-f", "."], check=True)
            return [(f.path, f.line, f.level) for f in lint.lint(root)]

    def include(self, path, name, *others):
        """Findings when `path` includes `name`; `others` exist."""
        return self.findings({path: f'\n#include "{name}"\n', **{o: "" for o in others}})

    def assert_bad(self, findings, path, line, level="error"):
        self.assertEqual(findings, [(path, line, level)])

    def test_good_tree(self):
        good = {
            "dialects/Graph/Graph.h": '#include "dialects/Dist/Dist.h"\n#include "Ops.h.inc"\n',
            "dialects/Dist/Dist.h": '#include "mlir/IR/Dialect.h"\n',
            "passes/Autodiff.cpp": '#include "dialects/Graph/Graph.h"\n#include "passes/Passes.h.inc"\n',
            "codegen/Writer.cpp": '#include "divisi/abi.h"\n',
            "compiler/Driver.cpp": '#include "codegen/Writer.h"\n#include "passes/Training/Passes.h"\n',
            "tools/divisi.cpp": '#include "compiler/Driver.h"\n',
            lint.ABI: "#include <stdint.h>\n",
            "runtime/core/status.h": '#include "divisi/abi.h"\n',
            "docs/page.md": "See a/work/b, ~/work and $ROOT/root.\n",
            "model.onnx": b"\0 fine",
        }
        self.assertEqual(self.findings(good), [])

    def test_layers(self):
        for path, name in (
            ("dialects/Graph/Graph.cpp", "passes/Training/Passes.h"),
            ("dialects/Dist/Dist.h", "dialects/Graph/Graph.h"),
            ("dialects/Dist/Dist.td", "dialects/Graph/Graph.td"),
            ("passes/Training/Autodiff.cpp", "codegen/Writer.h"),
            ("codegen/Writer.cpp", "passes/Training/Passes.h.inc"),
            ("codegen/Writer.cpp", "compiler/Driver.h"),
            ("compiler/Driver.cpp", "tools/divisi.h"),
            ("runtime/core/run.cpp", "dialects/Exec/Arena.h"),
            ("runtime/core/run.cpp", "llvm/ADT/SmallVector.h"),
        ):
            with self.subTest(path=path, name=name):
                self.assert_bad(self.include(path, name), path, 2)

    def test_layers_by_where_the_file_is(self):
        self.assert_bad(
            self.include("dialects/Graph/A.cpp", "../Up.h", "dialects/Up.h")
            + self.include("dialects/Dist/A.cpp", "../Graph/G.h", "dialects/Graph/G.h"),
            "dialects/Dist/A.cpp",
            2,
        )
        self.assert_bad(
            self.include("codegen/Writer.cpp", "core/status.h", "runtime/core/status.h"), "codegen/Writer.cpp", 2
        )
        self.assert_bad(self.include("passes/P.cpp", "divisi/abi.h", lint.ABI), "passes/P.cpp", 2)
        self.assert_bad(
            self.include("codegen/C.cpp", "divisi/npy.h", "runtime/include/divisi/npy.h"), "codegen/C.cpp", 2
        )

    def test_td_include(self):
        self.assert_bad(
            self.findings({"dialects/Dist/D.td": 'include "dialects/Graph/G.td"\n'}), "dialects/Dist/D.td", 1
        )

    def test_sizes(self):
        self.assert_bad(self.findings({"test/a.cpp": "\n" * 601}), "test/a.cpp", 601, "warning")
        self.assert_bad(self.findings({"tools/divisi/a.cpp": "\n" * 201}), "tools/divisi/a.cpp", 201)
        self.assert_bad(self.findings({"passes/a.cpp": "\n" * 501}), "passes/a.cpp", 501)
        self.assert_bad(self.findings({"tools/a.py": "\n" * 1001}), "tools/a.py", 1001)
        self.assertEqual(self.findings({"tools/list.txt": "\n" * 2000, "tools/b.cpp": "\n" * 600}), [])

    def test_op_kinds(self):
        dialect = {"dialects/Graph/G.td": "def Graph_AddOp : X;\ndef Graph_ReshapeOp : X;\n"}
        table = "test/lint/op_kinds.txt"

        def found(code, rows=""):
            return [f for f in self.findings({**dialect, "passes/a.cpp": code, table: rows}) if f[0] in ("passes/a.cpp", table)]

        one, two = "\nif (isa<graph::AddOp>(op)) {}\n", "isa<AddOp>(x); f.walk([&](graph::AddOp op) {});\n"
        self.assert_bad(found(one), "passes/a.cpp", 2)
        self.assertEqual(found("isa<graph::ReshapeOp>(op); isa<arith::AddOp>(op);"), [])
        self.assertEqual(found(one, "passes/a.cpp | 1 | a pattern\n"), [])
        self.assertEqual(found(two, "passes/ | any | patterns\n"), [])
        self.assert_bad(found(two, "passes/a.cpp | 1 | a pattern\n"), "passes/a.cpp", 1)
        self.assert_bad(found(one, "passes/a.cpp | 2 | a pattern\n"), "passes/a.cpp", 2, "warning")
        self.assert_bad(found("", "passes/a.cpp | 1 | a pattern\n"), table, 1, "warning")
        self.assertIn((table, 1, "error"), found(one, "passes/a.cpp | 1\n"))

    def test_call_order(self):
        builder = {
            "dialects/Graph/GraphBuilder.h": "class GraphBuilder {\n  Value add(Value a, Value b) { return op<AddOp>(a, b); }\n"
            "  template <typename OpT> Value op(Value x);\n  Value known(int i) const;\n};\n",
            "passes/Parts.h": '#include "dialects/Graph/GraphBuilder.h"\nValue half(B &b, Value x);\nbool isHalf(B &b);\n',
            "passes/Parts.cpp": '#include "passes/Parts.h"\nstatic bool is(B &b) { return true; }\nValue half(B &b, Value x) {\n  return b.op<HalfOp>(x);\n}\n',
        }

        def found(expression):
            code = f'#include "passes/Parts.h"\nstatic Value f(B &b, Value x) {{\n  auto twice = [&](Value v) {{ return b.add(v, v); }};\n  return {expression};\n}}\n'
            return self.findings({**builder, "passes/a.cpp": code})

        for bad in (
            "b.add(b.op<AbsOp>(x), b.op<NegOp>(x))",
            "b.add(b.add(x, x), half(b, x))",
            "g(1, twice(x), 2, AddOp::create(builder, loc, x))",
            "b.add(x, b.add(twice(x), other(b)))",
            "b.op<AbsOp>(facet.build(b), b.getBuilder().create<NegOp>(x) ? twice(x) : x)",
        ):
            with self.subTest(bad=bad):
                self.assert_bad(found(bad), "passes/a.cpp", 4)
        for good in (
            "b.add(x, b.op<NegOp>(x))",
            "b.add(b.known(0), twice(x))",
            "{half(b, x), twice(x)}",
            "g(b.add(x, x), [&](Value v) { return twice(v); })",
            "b.add(x, y) // b.add(twice(x), twice(y))",
            'g("b.add(x, x)", twice(x))',
        ):
            with self.subTest(good=good):
                self.assertEqual(found(good), [])

    def test_leftovers(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.assert_bad(self.findings({"tools/a.cpp": f"\n// {word}: later\n"}), "tools/a.cpp", 2)

    def test_absolute_paths(self):
        for place in ("home/me/x", "work/x", "root/.cache", "root"):
            self.assert_bad(self.findings({"docs/a.md": f"in /{place} there\n"}), "docs/a.md", 1)
        self.assert_bad(self.findings({"tools/m.onnx": b"\0/" + b"home/me/model.py"}), "tools/m.onnx", 1)

    def test_generated(self):
        for path in (
            "tools/build/a.txt",
            "tools/a.o",
            "dialects/Graph/Ops.h.inc",
            "tools/__pycache__/a.py",
            "compile_commands.json",
        ):
            self.assert_bad(self.findings({path: "x"}), path, 1)
            self.assertEqual(self.findings({path: "x"}, tracked=False), [])

    def test_readme(self):
        self.assert_bad(self.findings({"bare/a.cpp": ""}), "bare", 0)
        self.assertEqual(self.findings({".ci/run": ""}), [])

    DOCUMENTED = """
include "mlir/IR/OpBase.td"
def G : Dialect { let name = "g"; let cppNamespace = "::g"; }
def G_AddOp : Op<G, "add"> {
  let summary = "x + y";
  let arguments = (ins AnyType:$x, AnyType:$y);
  let results = (outs AnyType:$sum);
  let description = [{
    **Semantics.** `sum = x + y`.

    **Operands and results.** `x`, `y` and `sum`: any types.

    **Constraints.**
    1. They have one type.
    2. It is a number.

    **Example.**

    ```mlir
    %z = g.add %x, %y : i64
    ```

    **Inserted by** the importer. **Removed by** decompose.
  }];
}
"""

    def test_operations(self):
        path = "dialects/Graph/G.td"
        self.assertEqual(self.findings({path: self.DOCUMENTED}), [])
        self.assertEqual(self.findings({"dialects/Other/G.td": self.DOCUMENTED.replace("*", "")}), [])
        for part, instead in (
            ("x + y\"", "\""),
            ("**Semantics.** ", ""),
            ("`sum = x + y`", "the sum"),
            ("`y` and", "y and"),
            ("and `sum`", "and the sum"),
            ("1. They", "They"),
            ("2. It", "3. It"),
            ("g.add %x", "g.sub %x"),
            ("```mlir", "```"),
            (" the importer", ""),
            (" decompose", ""),
        ):
            with self.subTest(part=part):
                bad = self.DOCUMENTED.replace(part, instead)
                self.assertNotEqual(bad, self.DOCUMENTED)
                self.assert_bad(self.findings({path: bad}), path, 4)
        self.assert_bad(self.findings({path: self.DOCUMENTED.replace("let results", "results")}), path, 0)

    def test_examples(self):
        def module(example, name="g.add"):
            text = f"```mlir\n    {example}\n    ```"
            return op_docs.module_of(op_docs.Operation("G.td", 1, name, "", text, []))

        for example, arguments in (
            ("%z = g.add %x, %y : i64", "%x: i64, %y: i64"),
            ("%a, %b = g.add %x {k = 1 : i64} : (tensor<2x3xf32>) -> (i1, i2)", "%x: tensor<2x3xf32>"),
            ("%z = g.add %x, %y : (t<4, !g<a, b>>, i1) -> i2", "%x: t<4, !g<a, b>>, %y: i1"),
            ("%z = g.add %x dim 0 : i1 -> i2", "%x: i1"),
            ("g.add %x : i1", "%x: i1"),
            ("%z = g.add 1 : i1", ""),
        ):
            self.assertTrue(module(example).startswith(f"func.func @example({arguments}) {{\n"), module(example))
        self.assertEqual(module('dist.plan "a" {\n}').strip(), 'dist.plan "a" {\n}')
        with self.assertRaises(ValueError):
            module("%z = g.add %x, %y : (i1) -> i2")

    def test_untracked_files_count(self):
        self.assert_bad(self.findings({"tools/a.cpp": "\n// XX" + "X\n"}, tracked=False), "tools/a.cpp", 2)

    def test_errors(self):
        bad = "#pragma once\nbool read(std::string &error);\n"
        self.assert_bad(self.findings({"compiler/Read.h": bad}), "compiler/Read.h", 2)
        self.assertEqual(self.findings({"test/Read.h": bad}), [])

    def test_words(self):
        for path, text in (
            ("docs/plans.md", "It is Computed again."),
            ("tools/divisi/Plan.cpp", 'help("a grid of devices")'),
            ("passes/A.cpp", "// Computes all parts again: so it says"),
            ("test/a.mlir", "// Kept for the backward part."),
            ("runtime/comm/a.h", "/// Sends so many bytes."),
            ("runtime/comm/b.h", "  /// It sends so\n  /// many bytes."),
        ):
            with self.subTest(path=path):
                self.assert_bad(self.findings({path: f"\n{text}\n"}), path, 2)
        self.assertEqual(self.findings({"docs/decisions.md": "computed again\n", "passes/A.cpp": "// recomputed\n"}), [])

    def test_accepted_words(self):
        table = "# why\n\npasses/A.cpp | so many registers that | a comparison\n"
        files = {lint.WORDS: table, "passes/A.cpp": "// It uses so many registers that it waits.\n"}
        self.assertEqual(self.findings(files), [])
        self.assert_bad(self.findings({**files, "passes/B.cpp": files["passes/A.cpp"]}), "passes/B.cpp", 1)
        self.assert_bad(self.findings({**files, "passes/A.cpp": "\n"}), lint.WORDS, 3, "warning")
        bad = self.findings({**files, lint.WORDS: "passes/A.cpp | so many registers that |\n"})
        self.assertEqual(bad, [(lint.WORDS, 1, "error"), ("passes/A.cpp", 1, "error")])


if __name__ == "__main__":
    unittest.main()
