#!/usr/bin/env python3
"""The pages that explain, diff and simulate write, and the facts in them.

    pages.py --divisi PATH [--only MODEL]

The script of explain's page runs in QuickJS on a small document: no error, and every plan, parameter and layer of --json is there, rows open, and
columns sort. The facts are held to identities: a step is its computation and what communication is exposed, and the layers add up to both. Texts are
short, and no page loads anything. Prints `N passed, N failed`.
"""

import argparse
import html.parser
import json
import pathlib
import re
import subprocess
import sys

import quickjs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "execute"))
sys.dont_write_bytecode = True
import cases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {"mlp": "2xh100", "gpt_tiny": "4xh100", "moe_tiny": "4xa100", "lstm_tiny": "2xh100", "resnet_tiny": "2x2xh100"}
EXPLAINED, SCREEN = 120, 48  # lines at most
ODD = re.compile(r"undefined|\bNaN\b|Infinity|\[object|\bnull\b|\d[eE][+-]?\d")  # what a reader should not see

# As much of a document as page.html asks for.
DOCUMENT = """
class Text { constructor(text) { this.text = String(text); } get textContent() { return this.text; } }
class Node {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.listeners = {}; this.parent = null; this.value = ''; this.hidden = false;
    this.style = {setProperty() {}};
    this.classList = {add: (name) => { this.attributes.class = ((this.attributes.class || '') + ' ' + name).trim(); }}; }
  get textContent() { return this.children.map((child) => child.textContent).join(' '); }
  set textContent(text) { this.children = [new Text(text)]; }
  get checked() { return 'checked' in this.attributes; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return name in this.attributes ? this.attributes[name] : null; }
  addEventListener(name, call) { this.listeners[name] = call; }
  click() { this.listeners.click({target: this}); }
  adopt(nodes) { return nodes.map((node) => { node = node instanceof Node ? node : new Text(node); node.parent = this; return node; }); }
  append(...nodes) { this.children.push(...this.adopt(nodes)); }
  replaceChildren(...nodes) { this.children = this.adopt(nodes); }
  after(...nodes) { this.parent.children.splice(this.parent.children.indexOf(this) + 1, 0, ...this.parent.adopt(nodes)); }
  remove() { if (this.parent) this.parent.children.splice(this.parent.children.indexOf(this), 1); }
  all() { return this.children.flatMap((child) => child instanceof Node ? [child, ...child.all()] : []); }
  querySelectorAll(selector) { return this.all().filter((node) => node.tag === 'button' && node.attributes['aria-expanded'] === 'true'); }
}
const contents = new Node('nav'), links = new Node('div'), main = new Node('main'), report_ = new Text(REPORT);
contents.append(links);
const document = {title: '', createElement: (tag) => new Node(tag), querySelector: () => links,
  getElementById: (id) => ({page: main, contents, report: report_})[id],
  querySelectorAll: () => FORMS.map((form) => ({textContent: form, nextElementSibling: {textContent: 'what ' + form + ' is'}}))};
function clickAll() {
  for (let round = 0; round < 4; ++round)
    for (const node of main.all()) if (node.tag === 'button' && node.attributes['aria-expanded'] === 'false') node.click();
}
function sortedBy(label) {
  const head = main.all().filter((node) => node.tag === 'button' && node.textContent === label)[0];
  head.click();
  let table = head;
  while (table.tag !== 'table') table = table.parent;
  return JSON.stringify(table.children[1].children.map((row) => row.children[0].textContent));
}
"""


class Page(html.parser.HTMLParser):
    """The parts of a page; what it would load is an error."""

    def __init__(self, text):
        super().__init__()
        self.parts, self.attributes, self.open = {}, [], []
        self.forms = re.findall(r"<dt data-form>([^<]+)</dt>", text)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data):
        tag = self.open[-1] if self.open else ""
        self.parts.setdefault(tag, []).append(data)

    def check_closed(self):
        loaded = [value for name, value in self.attributes if name in ("src", "href") and not value.startswith("#")]
        assert not loaded, f"the page loads {loaded}"


def near(a, b, what):
    assert abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-6), f"{what}: {a} and {b}"


def check_facts(report):
    for plan in report["plans"]:
        near(plan["step_ms"], plan["compute_ms"] + plan["exposed_ms"], f"{plan['name']}: computation and exposed communication of a step")
        near(plan["communication_ms"], plan["exposed_ms"] + plan["overlapped_ms"], f"{plan['name']}: exposed and overlapped communication")
        if len(plan["parallelism"]) == 0:
            assert plan["devices"] == 1 or plan["communication_ms"] == 0, f"{plan['name']} has no parallelism on {plan['devices']} devices"
    best, layers = report["plans"][0], report["layers"]
    near(best["compute_ms"], sum(layer["forward_ms"] + layer["backward_ms"] for layer in layers), "computation of the layers")
    near(best["exposed_ms"], sum(layer["exposed_ms"] for layer in layers), "exposed communication of the layers")
    near(best["communication_ms"], sum(c["ms"] for layer in layers for c in layer["collectives"]), "collectives of the layers")


def check_script(page, report):
    script = page.parts["script"]
    data, code = json.dumps(script[0]), script[1]
    context = quickjs.Context()
    context.eval(f"const REPORT = {data}, FORMS = {json.dumps(page.forms)};" + DOCUMENT + code.replace('"use strict";', ""))
    context.eval("clickAll()")
    text = context.eval("main.textContent + ' ' + links.textContent")
    for plan in report["plans"]:
        assert plan["name"] in text, f"no plan {plan['name']}"
        assert set(plan["parallelism"]) <= set(page.forms), f"{plan['parallelism']} are not in the glossary"
    wanted = [layer["name"] for layer in report["layers"] if layer["name"]] + [reason["reason"] for layer in report["layers"] for reason in layer["collectives"]]
    context.eval("for (const node of main.all()) if (node.listeners.change) { delete node.attributes.checked; node.listeners.change(); }")
    context.eval("clickAll()")
    alone = context.eval("main.textContent")
    for name in [*wanted, *(parameter["name"] for parameter in report["parameters"])]:
        assert name in alone, f"no '{name}'"
    assert not ODD.search(alone), f"the page says {ODD.search(alone)[0]!r}"
    for label, key in ("parameters", lambda x: x["parameter_bytes"]), ("exposed", lambda x: x["exposed_ms"]):
        rows = [row.strip() for row in json.loads(context.eval(f"sortedBy({json.dumps(label)})"))]
        largest = max(report["layers"], key=key)
        top = [layer["name"] for layer in report["layers"] if key(layer) == key(largest)]
        assert any(not name or rows[0].startswith(name) for name in top), f"sorted by {label}, {rows[0]!r} comes first, not {top}"
    return f"{len(report['layers'])} layers, {len(report['parameters'])} parameters"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divisi", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=MODELS, help="one model")
    arguments = parser.parse_args()

    def divisi(*words):
        done = subprocess.run([arguments.divisi.resolve(), *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
        return done.stdout

    def explained(name, folder):
        words = ["explain", ROOT / "test/models" / name / "model.onnx", "--cluster", MODELS[name], "--optimizer", "adamw", "--price", "2/h"]
        report = json.loads(divisi(*words, "--json"))
        check_facts(report)
        yield "a step is computation and exposed communication, and the layers add up to both"
        divisi(*words, "--html", folder / "page.html")
        page = Page((folder / "page.html").read_text())
        page.check_closed()
        yield check_script(page, report)
        text = divisi(*words)
        lines = text.splitlines()
        assert len(lines) <= EXPLAINED, f"{len(lines)} lines"
        assert not ODD.search(text), f"the text says {ODD.search(text)[0]!r}"
        listed = re.findall(r"^  (?:(\d+) x )?(\S+) (?:[0-9x]+)?: \[", text, re.MULTILINE)
        smaller = re.search(r"^  (\d+) smaller ones", text, re.MULTILINE)
        count = sum(int(times or 1) for times, _ in listed) + int(smaller[1] if smaller else 0)
        assert count == len(report["parameters"]), f"{count} of {len(report['parameters'])} parameters are listed or counted"
        largest = re.sub(r"(?<![^./_])\d+(?![^./_])", "*", max(report["parameters"], key=lambda one: one["local_bytes"])["name"])
        assert any(re.sub(r"(?<![^./_])\d+(?![^./_])", "*", name) == largest for _, name in listed), f"the largest, {largest}, is not listed"
        yield f"{len(lines)} lines of text"

    def compared(folder):
        """Pages of diff and simulate: the text's words are there, and nothing is loaded."""
        model = ROOT / "test/models/gpt_tiny/model.onnx"
        words = ["diff", "data=2", "stage=2 microbatches=2 schedule=gpipe", model, "--cluster", "2xh100"]
        lines = divisi(*words).splitlines()
        assert len(lines) <= SCREEN, f"{len(lines)} lines"
        divisi(*words, "--html", folder / "diff.html")
        page = Page((folder / "diff.html").read_text())
        page.check_closed()
        found = [part for parts in page.parts.values() for part in parts]
        for line in lines:
            for cell in re.split(r"  +", line.strip()):
                assert not cell or cell in found, f"no {cell!r} in the page of diff"
        yield f"diff: {len(lines)} lines"
        divisi("simulate", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--html", folder / "simulate.html")
        Page((folder / "simulate.html").read_text()).check_closed()
        yield "simulate"

    def named(folder):
        """An axis that shards the batch of the matmuls is data parallelism, also where every device gets whole inputs; the types of the step say so."""
        graph = folder / "gpt.onnx"
        sizes = "--layers 2 --hidden 512 --heads 8 --vocab 1024 --seq 256".split()
        subprocess.run([sys.executable, ROOT / "examples/large-graphs/make_graph.py", "gpt", *sizes, "-o", graph], check=True, capture_output=True)
        words = [graph, "--dim", "batch=128", "--cluster", "8xh100", "--mesh", "data=8", "--pin", "idx=_,_", "--pin", "targets=_,_"]
        best = json.loads(divisi("plan", *words, "--json"))["plans"][0]
        step = divisi("compile", *words, "--strategy", "auto", "--target", "cuda", "--emit", "planned")
        results = re.findall(r"graph\.matmul .*-> tensor<[0-9x]*xf32, #dist\.shard<(.*)>>", step)
        batched = [shard for shard in results if shard.startswith('"data"') or shard.endswith('sum "data"')]  # samples, or sums over samples
        assert len(results) > 50 and len(batched) == len(results), f"{len(batched)} of {len(results)} matmuls have shards of the batch"
        assert best["parallelism"] in (["data"], ["ZeRO-3"]), f"{best['name']}: {best['parallelism']}"
        yield f"{len(results)} matmuls have shards of the batch: {best['name']} is data parallelism"

    models = [arguments.only] if arguments.only else MODELS
    return cases.run([*models, *([] if arguments.only else [compared, named])], lambda case, folder: case(folder) if callable(case) else explained(case, folder))


if __name__ == "__main__":
    sys.exit(main())
