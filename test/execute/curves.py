#!/usr/bin/env python3
"""The files for TensorBoard, read by TensorFlow's definitions: the numbers of the log, under the log's names, also after a resume.

    curves.py --divisi PATH

Records are checked with a bitwise CRC-32C, events are parsed by protobuf with the messages of event.proto and summary.proto.
Needs protobuf. Ends with `N passed, N failed`.
"""

import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import cases

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/gpt_tiny"
NOT_CURVES = {"eval", "step", "epoch", "schema", "wall_time", "grad_norms"}


def event_type():
    """tensorflow.Event, as far as programs write it."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="tensorflow", syntax="proto3")
    messages = {
        "Value": [("tag", 1, kind.TYPE_STRING), ("simple_value", 2, kind.TYPE_FLOAT)],
        "Summary": [("value", 1, "Value")],
        "SessionLog": [("status", 1, kind.TYPE_INT32)],
        "Event": [("wall_time", 1, kind.TYPE_DOUBLE), ("step", 2, kind.TYPE_INT64), ("file_version", 3, kind.TYPE_STRING),
                  ("summary", 5, "Summary"), ("session_log", 7, "SessionLog")],
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, of in fields:
            label = kind.LABEL_REPEATED if of == "Value" else kind.LABEL_OPTIONAL
            if isinstance(of, str):
                message.field.add(name=field, number=number, type=kind.TYPE_MESSAGE, type_name=f".tensorflow.{of}", label=label)
            else:
                message.field.add(name=field, number=number, type=of, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Event"))


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events_of(path, event):
    data, found = path.read_bytes(), []
    while data:
        length, crc = struct.unpack_from("<QI", data)
        assert crc == masked_crc(data[:8]), f"{path}: checksum of a length"
        body, (crc,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        assert len(body) == length and crc == masked_crc(body), f"{path}: checksum of an event"
        found.append(event.FromString(body))
        data = data[16 + length :]
    return found


def curves(folder, event):
    """{(name, step): value} as TensorBoard shows it: a session that starts at a step replaces what was there from it on."""
    shown = {}
    for path in sorted(folder.glob("*tfevents*")):
        version, *events = events_of(path, event)
        assert version.file_version == "brain.Event:2" and version.wall_time > 1.7e9
        for e in events:
            if e.HasField("session_log") and e.session_log.status == 1:
                shown = {key: value for key, value in shown.items() if key[1] < e.step}
            for value in e.summary.value:
                assert (value.tag, e.step) not in shown, f"{value.tag} of step {e.step} is there twice"
                shown[value.tag, e.step] = value.simple_value
    return shown


def as_logged(log, board, event):
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for folder, part in ("train", [r for r in rows if not r.get("eval")]), ("eval", [r for r in rows if r.get("eval")]):
        wanted = {(name, row["step"]): value for row in part for name, value in row.items() if name not in NOT_CURVES}
        got = curves(board / folder, event)
        assert wanted and got.keys() == wanted.keys(), f"{folder}: {sorted(got.keys() ^ wanted.keys())}"
        for key, value in wanted.items():
            if value is None:  # a noise scale that is not known yet
                assert key[0] == "noise_scale" and math.isnan(got[key]), f"{folder}: {key} is {got[key]}"
                continue
            assert abs(got[key] - value) <= 1e-6 * abs(value), f"{folder}: {key} is {got[key]}, in the log {value}"
    return rows


def check(divisi, work):
    event = event_type()
    program, log, board = work / "program", work / "log.jsonl", work / "board"
    subprocess.run([divisi, "compile", MODEL / "model.onnx", "-o", program, "--lr", "0.05", "--microbatches", "2", "--log-noise-scale"], check=True, stderr=subprocess.DEVNULL)
    files = [w for flag in ("--data", "--eval") for name in ("idx", "targets") for w in (flag, f"{name}={MODEL}/data/{name}.npy")]

    def run(*flags):
        return subprocess.run([program, *files, "--threads", "1", "--log", log, "--tensorboard", board, *map(str, flags)], check=True,
                              capture_output=True, text=True).stdout

    said = run("--epochs", 2)
    rows = as_logged(log, board, event)
    names = {name for row in rows for name in row}
    assert {"accuracy", "perplexity", "tokens_per_s", "epoch_loss", "best_loss", "lr", "grad_sq_big", "grad_sq_small", "noise_scale"} <= names, names
    yield f"{len(rows)} lines, {len(names - NOT_CURVES)} curves as in the log"
    last = rows[-1]
    line = [line for line in said.splitlines() if line.startswith("epoch 2/2")][-1]
    for text in (f"eval loss {last['loss']:.4f}", f"eval accuracy {last['accuracy']:.4f}", f"eval perplexity {last['perplexity']:.6g}", " tokens/s"):
        assert text in line, f"{text} is not in: {line}"
    assert f"final loss {last['loss']:.9g} accuracy {last['accuracy']:.9g}" in said, said
    yield "the console has the same numbers"
    log.unlink()
    for path in board.glob("*/*"):
        path.unlink()
    keep = ["--checkpoint", work / "checkpoints", "--every", 4, "--eval-every", 3]
    run("--steps", 10, *keep)
    checkpoint = json.loads((work / "checkpoints/step-10/manifest.json").read_text())
    run("--steps", 14, *keep, "--resume")
    rows = as_logged(log, board, event)
    assert [row["step"] for row in rows if not row.get("eval")] == list(range(1, 15))
    at = next(row for row in rows if row.get("eval") and row["step"] == checkpoint["evaluations"]["best_step"])
    assert f"{checkpoint['evaluations']['best_loss']:.9g}" == f"{at['loss']:.9g}", f"{checkpoint['evaluations']} and {at}"
    yield "a resumed run continues its curves, and its checkpoint has the same best loss"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    return cases.run([check], lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
