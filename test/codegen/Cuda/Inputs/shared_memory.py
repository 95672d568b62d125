"""Many sums over columns in one kernel: arguments DIVISI COUNT TYPE. Writes what each kernel's PTX declares of shared memory; fails above 48 KB."""

import collections
import re
import subprocess
import sys
import tempfile

divisi, count, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rows, columns = 200, 33
lines = [f'func.func @loss(%w: tensor<{columns}x{kind}> {{graph.parameter = "w"}}, %x: tensor<{rows}x{columns}x{kind}> {{graph.input = "x"}}) -> (tensor<{kind}> {{graph.loss}}) {{',
         f"  %wide = graph.broadcast %w {{dims = array<i64: 1>}} : (tensor<{columns}x{kind}>) -> tensor<{rows}x{columns}x{kind}>",
         f"  %z = graph.mul %x, %wide : tensor<{rows}x{columns}x{kind}>"]  # fmt: skip
total = None
for i in range(count):
    lines += [f"  %c{i} = graph.constant dense<{i + 1}.0> : tensor<{rows}x{columns}x{kind}>", f"  %m{i} = graph.mul %z, %c{i} : tensor<{rows}x{columns}x{kind}>",
              f"  %e{i} = graph.exp %m{i} : tensor<{rows}x{columns}x{kind}>",
              f"  %r{i} = graph.reduce_sum %e{i} {{dims = array<i64: 0>}} : (tensor<{rows}x{columns}x{kind}>) -> tensor<{columns}x{kind}>",
              f"  %s{i} = graph.sqrt %r{i} : tensor<{columns}x{kind}>"]  # fmt: skip
    lines.append(f"  %t{i} = graph.add %t{i - 1}, %s{i} : tensor<{columns}x{kind}>" if i else f"  %t0 = graph.neg %s0 : tensor<{columns}x{kind}>")
lines += [f"  %loss = graph.reduce_sum %t{count - 1} {{dims = array<i64: 0>}} : (tensor<{columns}x{kind}>) -> tensor<{kind}>", f"  return %loss : tensor<{kind}>", "}"]
with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
    file.write("\n".join(lines))
    file.flush()
    ptx = subprocess.run([divisi, "compile", file.name, "--emit", "ptx", "--cuda-arch", "90"], check=True, capture_output=True, text=True).stdout
shared = collections.Counter()
for name, size in re.findall(r"\.shared .*? (kernel\d+)_\w+\[(\d+)\]", ptx):
    shared[name] += int(size)
most = max(shared.values(), default=0)
print(f"{count} sums of {kind}: at most {most} bytes of shared memory")
sys.exit(most > 48 * 1024)
