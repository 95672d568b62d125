"""The command line of `divisi` for plans, and its output: for the cases of plans.py and pipeline_plans.py."""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MAKE_GRAPH = HERE.parents[1] / "examples/large-graphs/make_graph.py"
GB = 1e9
# (name, devices in it, bytes/s and latency of one device's or one machine's link), from the inside to the outside.
NVLINK = ("nvlink", 8, "370GB/s", "2us")
HAND_PLANS = 20  # at least, of each model


def axes_of(sharding):
    """[["data"], [], ["model", "data"]] of "[data, _, model+data]"."""
    return [[] if dim == "_" else dim.split("+") for dim in sharding.strip("[]").split(", ")]


def place_of(places, name):
    """The sharding of a tensor; [] where it is whole."""
    return places.get(name) or next((dims for pattern, dims in places.items() if fnmatch.fnmatch(name, pattern)), [])


class Planner:
    """The command line of `divisi`, and its output."""

    def __init__(self, divisi, folder, brief=False):
        self.divisi, self.folder, self.brief, self.models = divisi, pathlib.Path(folder), brief, {}

    def run(self, *words, codes=(0,)):
        done = subprocess.run([self.divisi, *map(str, words)], capture_output=True, text=True)
        if done.returncode not in codes:
            raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        return done

    def plans(self, *words, codes=(0, 3)):
        return json.loads(self.run("plan", *words, "--json", codes=codes).stdout)["plans"]

    def explain(self, *words):
        return json.loads(self.run("explain", *words, "--json").stdout)

    def best_places(self, *words):
        """The best plan, and the shardings that its plan file gives to the tensors that it names, by name or pattern."""
        best = self.plans(*words)[0]
        text = self.run("compile", *words, "--mesh", best["mesh"], "--emit", "plan").stdout  # and no pipeline
        return best, {name: axes_of(sharding) for name, sharding in re.findall(r'dist\.place "([^"]*)" : (\[[^\]]*\])', text)}

    def data_parallel_ms(self, name, words):
        """The step of data parallelism with ZeRO, such as "data=4 zero=1", by itself."""
        devices, zero = re.fullmatch(r"data=(\d+) zero=(\d)", name).groups()
        file, at = self.folder / "strategy.plan", words.index("--cluster")
        target = "cpu" if str(words[at + 1]).startswith("cpu") else "cuda"
        self.run("compile", *words[:at], *words[at + 2:], "--devices", devices, "--strategy", "data", "--zero", zero,
                 "--target", target, "--emit", "plan", "-o", file)
        return self.plans(*words, "--plan", file)[0]["step_ms"]

    def graph(self, words, weights="none"):
        """A model that make_graph.py writes, and its batch."""
        key = (words, weights)
        if key not in self.models:
            folder = self.folder / f"graph{len(self.models)}"
            folder.mkdir()
            subprocess.run([sys.executable, MAKE_GRAPH, *words.split(), "--weights", weights, "-o", folder / "model.onnx"],
                           check=True, capture_output=True)
            self.models[key] = folder / "model.onnx"
        return self.models[key]

    def cluster(self, *levels, device="a100", **figures):
        """The path of a cluster file."""
        text = [f'[cluster]\nname = "test"\n[device]\npreset = "{device}"\n']
        text += [f'{key} = "{value}"\n' for key, value in figures.items()]
        for name, size, bandwidth, latency in levels:
            text.append(f'[[level]]\nname = "{name}"\nsize = {size}\nbandwidth = "{bandwidth}"\nlatency = "{latency}"\n')
        path = self.folder / f"cluster{len(list(self.folder.glob('*.toml')))}.toml"
        path.write_text("".join(text))
        return path


    def quick(self):
        """Four devices that start kernels and messages so quickly that sharding small models pays."""
        return self.cluster(("link", 4, "370GB/s", "0.1us"), device="h100", launch="0.1us")


def told(plan):
    return f"{plan['name']} ({' '.join(plan['parallelism'])}), {plan['step_ms']:.4g} ms, {plan['memory']['total'] / GB:.3g} GB"
