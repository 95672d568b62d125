#!/usr/bin/env python3
"""Unit tests of report.py: what makes the suite fail, and what an update writes."""

import pathlib
import tempfile
import types
import unittest

import report


def case(name, operator="Add", skip="", expanded=False, opset=13):
    return types.SimpleNamespace(name=name, operator=operator, skip=skip, expanded=expanded, opset=opset)


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, report, "SUPPORTED", report.SUPPORTED)
        self.addCleanup(setattr, report, "REASONS", report.REASONS)
        report.SUPPORTED, report.REASONS = (pathlib.Path(folder.name) / n for n in ("supported.txt", "reasons.txt"))
        report.SUPPORTED.write_text("# head\ntest_a\n")
        report.REASONS.write_text("")

    def judge(self, cases, errors, everything=True):
        return [line.split(":")[0] for line in report.judge(cases, errors, everything)]

    def test_all_as_listed(self):
        self.assertEqual(self.judge([case("test_a")], {"test_a": ""}), [])

    def test_listed_one_breaks(self):
        self.assertEqual(self.judge([case("test_a")], {"test_a": "wrong"}), ["test_a"])

    def test_unlisted_one_passes(self):
        self.assertEqual(self.judge([case("test_a"), case("test_b")], {"test_a": "", "test_b": ""}), ["test_b"])

    def test_supported_operator_needs_a_reason(self):
        cases, errors = [case("test_a"), case("test_b")], {"test_a": "", "test_b": "wrong"}
        self.assertEqual(self.judge(cases, errors), ["test_b"])
        report.REASONS.write_text("test_[bc]: no such rounding\n")
        self.assertEqual(self.judge(cases, errors), [])

    def test_unsupported_operator_needs_none(self):
        cases, errors = [case("test_a"), case("test_b", "Det")], {"test_a": "", "test_b": "wrong"}
        self.assertEqual(self.judge(cases, errors), [])

    def test_stale_entries(self):
        report.REASONS.write_text("test_old: gone\n")
        self.assertEqual(self.judge([], {}), ["test_a", "reasons.txt"])
        self.assertEqual(self.judge([], {}, everything=False), [])

    def test_listed_one_is_skipped(self):
        self.assertEqual(self.judge([case("test_a", skip="string values")], {}), ["test_a"])

    def test_update_keeps_what_was_not_selected(self):
        report.update_supported({"test_c": "", "test_b": "wrong"}, {"test_b", "test_c"})
        self.assertEqual(report.SUPPORTED.read_text(), "# head\ntest_a\ntest_c\n")
        report.update_supported({"test_a": "wrong"}, {"test_a"})
        self.assertEqual(report.SUPPORTED.read_text(), "# head\ntest_c\n")

    def test_page_keeps_what_is_above_the_table(self):
        self.assertEqual(report.page("# Above\n\n# ONNX operators\nold\n", "# ONNX operators\nnew\n"), "# Above\n\n# ONNX operators\nnew\n")
        self.assertEqual(report.page("", "# ONNX operators\nnew\n"), "# ONNX operators\nnew\n")

    def test_table(self):
        report.REASONS.write_text("test_(b|c): no such rounding\n")
        cases = [case("test_a"), case("test_b"), case("test_a_expanded", expanded=True), case("test_d", "Det")]
        text = report.table(cases, {"test_a": "", "test_b": "no", "test_a_expanded": "", "test_d": "no"}, "1")
        self.assertIn("| Add | 13 | 1 / 2 | 1 / 1 |", text)
        self.assertIn("that is not in the next table: Det.", text)
        self.assertIn("| `test_(b\\|c)` | no such rounding |", text)


if __name__ == "__main__":
    unittest.main()
