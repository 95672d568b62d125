"""Training through the package is that of NumPy, however the data is given."""

import math

import numpy as np
import pytest
from conftest import BATCH, FEATURES, batches

import divisi


def trained(reference, data, steps):
    """The losses of NumPy's steps over consecutive batches."""
    rows = batches(data)
    return [reference.step(**rows[i % len(rows)]) for i in range(steps)]


def test_arrays_train_as_numpy(linear, reference, data):
    history = linear.fit(data, epochs=2, shuffle=False, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 12), abs=1e-5)
    assert [line.epoch for line in history.steps] == [1] * 6 + [2] * 6
    assert all(line.samples_per_s > 0 and line.wall_time > 1.7e9 for line in history.steps)
    assert history.steps[5].epoch_loss == pytest.approx(np.mean(history.losses[:6])) and history.steps[4].epoch_loss is None
    weights = linear.weights()
    assert sorted(weights) == ["b", "w"]
    np.testing.assert_allclose(weights["w"], reference.w, atol=1e-5)
    np.testing.assert_allclose(weights["b"], reference.b, atol=1e-5)


def test_weights_before_training_are_the_models(linear):
    np.testing.assert_array_equal(linear.weights()["w"], np.array([[0.1, 0.2, 0.3]], np.float32))


def test_files_train_as_arrays(linear, reference, data, tmp_path):
    for name, rows in data.items():
        np.save(tmp_path / f"{name}.npy", rows)
    history = linear.fit({name: tmp_path / f"{name}.npy" for name in data}, steps=8, shuffle=False, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 8), abs=1e-5)


def test_columns_of_csv_and_metrics(linear_file, reference, data, work):
    program = divisi.compile(linear_file, work / "measured", loss="mse", label="y", lr=0.1, metric=["mae"])
    rows = np.hstack([data["x"], data["y"]])
    np.savetxt(work / "all.csv", rows, delimiter=",", header="x0,x1,x2,y", comments="", fmt="%.9g")
    files = {"x": f"{work}/all.csv:x*", "y": f"{work}/all.csv"}
    history = program.fit(files, steps=8, shuffle=False, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 8), abs=1e-5)
    wanted = abs(data["x"] @ reference.w.T + reference.b - data["y"]).mean()
    assert program.evaluate(files).metrics == {"mae": pytest.approx(wanted, rel=1e-4)}


@pytest.mark.parametrize("size", [BATCH, 3, 24])
def test_batches_of_any_size_are_regrouped(linear, reference, data, size):
    history = linear.fit(batches(data, size), epochs=2, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 12), abs=1e-5)
    assert [line.epoch for line in history.steps] == [1] * 6 + [2] * 6


def test_tuples_and_single_samples(linear, reference, data):
    pairs = list(zip(data["x"].tolist(), data["y"].tolist()))  # lists of Python's numbers: converted
    history = linear.fit(pairs, steps=9, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 9), abs=1e-5)


def test_what_does_not_fill_a_batch_is_left_out_of_each_pass(linear, reference, data):
    longer = [*batches(data), {"x": np.ones((3, FEATURES), np.float32), "y": np.ones((3, 1), np.float32)}]
    history = linear.fit(longer, epochs=2, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 12), abs=1e-5)


def test_each_pass_asks_the_iterable_again(linear, data):
    class Growing:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(batches(data)[: self.passes])

    growing = Growing()
    history = linear.fit(growing, epochs=3, quiet=True)
    assert growing.passes == 3
    assert [line.epoch for line in history.steps] == [1, 2, 2, 3, 3, 3]


def test_evaluation_is_over_all_samples(linear, reference, data):
    some = {name: rows[:10] for name, rows in data.items()}  # two batches and a half
    before = linear.evaluate(some)
    assert before.samples_per_s > 0 and before.wall_time > 1.7e9
    assert before == divisi.Evaluation(0, 0, pytest.approx(reference.loss(**some), rel=1e-5))
    np.testing.assert_array_equal(linear.weights()["w"], np.array([[0.1, 0.2, 0.3]], np.float32))
    history = linear.fit(data, epochs=2, shuffle=False, eval=some, quiet=True)
    trained(reference, data, 12)
    expected = pytest.approx(reference.loss(**some), rel=1e-4)
    assert [line.step for line in history.evaluations] == [6, 12]
    assert history.evaluations[-1].loss == expected
    assert linear.evaluate(some).loss == expected
    assert linear.evaluate(batches(some, 5)).loss == expected


def test_a_second_fit_goes_on_from_the_weights(linear, reference, data):
    losses = [loss for _ in range(2) for loss in linear.fit(data, steps=6, shuffle=False, quiet=True).losses]
    assert losses == pytest.approx(trained(reference, data, 12), abs=1e-5)


def test_resume(linear, reference, data, tmp_path):
    folder = tmp_path / "checkpoints"
    first = linear.fit(data, steps=5, shuffle=False, checkpoint=folder, quiet=True)
    second = linear.fit(data, steps=12, shuffle=False, checkpoint=folder, resume=True, quiet=True)
    assert [line.step for line in second.steps] == list(range(6, 13))
    assert first.losses + second.losses == pytest.approx(trained(reference, data, 12), abs=1e-5)
    assert linear.evaluate(data).loss == pytest.approx(reference.loss(**data), rel=1e-4)


def test_callbacks_see_each_line_and_can_stop(linear, data):
    seen = []

    def stop(line):
        seen.append(line)
        return line.step >= 3

    history = linear.fit(data, epochs=10**6, quiet=True, callbacks=[stop])
    assert history.stopped and len(seen) >= 3 and history.steps[: len(seen)] == seen
    assert [line.step for line in history.steps] == list(range(1, len(history.steps) + 1))
    assert linear.weights()["w"].shape == (1, FEATURES)
    assert linear.evaluate(data).step == history.steps[-1].step


def test_an_exception_of_a_callback_ends_the_program(linear, data):
    def fail(line):
        raise KeyError(line.step)

    with pytest.raises(KeyError):
        linear.fit(data, epochs=10**7, quiet=True, callbacks=[fail])


def test_output_is_printed(linear, data, capfd):
    linear.fit(data, epochs=1)
    assert "final loss" in capfd.readouterr().out


def test_two_devices(work, linear_file, reference, data):
    program = divisi.compile(
        linear_file, work / "linear2", loss="mse", label="y", lr=0.1, devices=2, strategy="data"
    )
    assert (program.devices, program.mesh) == (2, {"data": 2})
    history = program.fit(data, epochs=1, shuffle=False, quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 6), abs=1e-5)
    assert history.steps[0].comm_bytes > 0
    np.testing.assert_allclose(program.weights()["w"], reference.w, atol=1e-5)
    assert program.evaluate(data).loss == pytest.approx(reference.loss(**data), rel=1e-4)
    history = program.fit(data, epochs=10**6, quiet=True, callbacks=[lambda line: line.step >= 3])
    assert history.stopped and program.weights()["w"].shape == (1, FEATURES)


def test_microbatches_take_the_same_data(work, linear_file, reference, data):
    program = divisi.compile(linear_file, work / "micro", loss="mse", label="y", lr=0.1, microbatches=2)
    assert [each.shape for each in program.inputs] == [(BATCH, FEATURES), (BATCH, 1)]
    history = program.fit(batches(data), quiet=True)
    assert history.losses == pytest.approx(trained(reference, data, 6), abs=1e-5)


def test_gradient_norms_of_the_first_step(linear, reference, data):
    x, y = data["x"][:BATCH], data["y"][:BATCH]
    error = x @ reference.w.T + reference.b - y
    expected = {"w": np.linalg.norm(2 * error.T @ x / BATCH), "b": abs(2 * error.sum() / BATCH)}
    history = linear.fit(data, steps=1, shuffle=False, quiet=True, log_grad_norms=True)
    assert history.steps[0].grad_norms == pytest.approx(expected, rel=1e-5)


def test_the_noise_of_gradients(work, linear_file, reference, data):
    program = divisi.compile(linear_file, work / "noise", loss="mse", label="y", lr=0.1, microbatches=2, log_noise_scale=True)

    def square(rows):
        x, y = data["x"][rows], data["y"][rows]
        error = x @ reference.w.T + reference.b - y
        return 4 * (np.linalg.norm(error.T @ x) ** 2 + error.sum() ** 2) / len(x) ** 2

    big, small = square(slice(BATCH)), (square(slice(BATCH // 2)) + square(slice(BATCH // 2, BATCH))) / 2
    step = program.fit(data, steps=1, shuffle=False, quiet=True).steps[0]
    assert [step.grad_sq_big, step.grad_sq_small] == pytest.approx([big, small], rel=1e-5)
    assert [step.grad_sq, step.grad_variance] == pytest.approx([2 * big - small, (small - big) * BATCH], rel=1e-4, abs=1e-5)


def test_a_loss_that_is_no_number_is_an_error(linear, data):
    bad = data | {"y": np.full_like(data["y"], math.nan)}
    with pytest.raises(divisi.Error, match="the loss of step 1 is NaN: .* look for NaN in the weights and the data") as raised:
        linear.fit(bad, quiet=True)
    assert "--lr" not in str(raised.value)  # no update was made yet


def test_predictions_are_the_models(linear_file, reference, data, work):
    program = divisi.compile(linear_file, work / "predicts", loss="mse", label="y", lr=0.1, predict=["pred"])
    assert [(each.name, each.shape, each.inputs) for each in program.outputs] == [("pred", (BATCH, 1), ("x",))]
    some = {name: rows[:11] for name, rows in data.items()}
    wanted = some["x"] @ reference.w.T + reference.b
    for given in (some, {"x": some["x"]}, batches(some, 5), list(zip(some["x"], some["y"]))):
        np.testing.assert_allclose(program.predict(given)["pred"], wanted, atol=1e-6)
    program.fit(data, steps=6, shuffle=False, quiet=True)
    trained(reference, data, 6)
    np.testing.assert_allclose(program.predict(some, ["pred"])["pred"], some["x"] @ reference.w.T + reference.b, atol=1e-5)
    with pytest.raises(divisi.Error, match="there is no output 'y'; the outputs are: pred"):
        program.predict(some, ["y"])


def test_predictions_need_their_output(linear, data):
    with pytest.raises(divisi.Error, match=r"compile it with predict=\[NAME\]"):
        linear.predict(data)


def test_moving_averages_are_evaluated_and_loaded(linear_file, reference, data, work):
    program = divisi.compile(linear_file, work / "averaged", loss="mse", label="y", lr=0.1, ema=0.5, predict="pred")
    program.fit(data, steps=6, shuffle=False, quiet=True, ema=True)
    average = None
    for rows in batches(data):
        reference.step(**rows)
        now = np.append(reference.w, reference.b)
        average = now if average is None else average + 0.5 * (now - average)
    np.testing.assert_allclose(np.append(program.weights()["w"], program.weights()["b"]), average, atol=1e-5)
    plain = data["x"] @ reference.w.T + reference.b
    averaged = data["x"] @ average[:3, None] + average[3]
    np.testing.assert_allclose(program.predict(data)["pred"], plain, atol=1e-5)
    np.testing.assert_allclose(program.predict(data, ema=True)["pred"], averaged, atol=1e-5)
    assert program.evaluate(data, ema=True).loss == pytest.approx(np.mean((averaged - data["y"]) ** 2), rel=1e-4)
    # Training goes on from the weights, not from their averages.
    again = program.fit(data, steps=1, shuffle=False, quiet=True)
    assert again.losses[0] == pytest.approx(reference.step(**next(iter(batches(data)))), rel=1e-4)
