"""What scripts/results makes of rows, and which claims its check finds.

usage: results_test.py FOLDER_OF_RESULTS_PY
"""
import csv
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop())
import claims  # noqa: E402
import results  # noqa: E402

STUDY = {"study": "a_study", "rows": ["rows.csv"], "measure": "test_loss",
         "head": "test loss", "rates": ["optimizer.lr"]}


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.study = self.root / results.STUDIES / "a_study"
        self.study.mkdir(parents=True)

    def table(self, *rows, **what):
        names = ["label", "blocks", "optimizer.lr", "seed", "validation_loss",
                 "test_loss"]
        with open(self.study / "rows.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([names, *rows])
        return results.Table(self.root, STUDY | what)

    def test_the_interval_is_that_of_students_t(self):
        self.assertAlmostEqual(results.half_width(2, 4), 3.182)
        self.assertIsNone(results.half_width(2, 2))

    def test_differences_are_paired_by_seed(self):
        # Seeds differ by 1, the methods by 0.1 in each: no spread is left.
        table = self.table(
            *(("boundary=backprop", 2, "", seed, 0, seed) for seed in (1, 2, 3)),
            *(("boundary=FR", 2, "", seed, 0, seed + 0.1) for seed in (1, 2, 3)))
        value, half, n, paired = (cell for cell in table.cells[
            ("FR", "", 1, 2)][1].minus(table.cells[("backprop", "", 1, 2)][1]))
        self.assertAlmostEqual(value, 0.1)
        self.assertAlmostEqual(half, 0)
        self.assertEqual((n, paired), (3, True))

    def test_the_validation_split_chooses_the_rate(self):
        table = self.table(("boundary=FR", 2, "0.1", 1, 0.5, 2),
                           ("boundary=FR", 2, "0.2", 1, 0.6, 1),
                           choose="validation_loss")
        self.assertEqual(table.cells[("FR", "", 1, 2)][0], "0.1")

    def test_a_single_run_has_no_interval(self):
        table = self.table(("boundary=FR", 2, "0.1", 1, 0.5, 2))
        self.assertIn("| FR | 2 | 0.1 | 2.000 | one run |", list(table.lines()))

    def test_errors_are_what_accuracies_lack_beside_those_published(self):
        with open(self.study / "rows.csv", "w", newline="") as file:
            csv.writer(file).writerows([
                ["label", "blocks", "seed", "test_accuracy"],
                ["predsim", 4, 1, 0.99]])
        table = results.Table(self.root, {
            "study": "a_study", "rows": ["rows.csv"], "measure": "test_error",
            "head": "error, %", "published": {"predsim": 0.0062}})
        self.assertIn("| predsim | 4 | 1.00 | 0.62 | +0.38 | one run |",
                      list(table.lines()))

    def test_spreads_that_rows_do_not_have_are_found(self):
        table = self.table(*(("boundary=FR", 2, "", seed, 0, seed)
                             for seed in (1, 2, 3)))
        (self.root / "README.md").write_text("")
        (self.study / "README.md").write_text("2.0 ± 1.0, but not 2.0 ± 0.9.")
        self.assertEqual(
            list(results.wrong_spreads(self.root, [table])),
            [f"{results.STUDIES}/a_study/README.md: 2.0 ± 0.9 isn't in its rows"])

    def test_figures_of_a_studys_table_that_rows_do_not_have_are_found(self):
        table = self.table(("boundary=backprop", 2, "", 1, 0.5, 2),
                           ("boundary=FR", 2, "", 1, 0.5, 2.25), title="Small")
        (self.study / "README.md").write_text(
            "\nLosses:\n\n| method | loss | gap |\n|---|---|---|\n"
            "| FR | 2.25 | +0.25 |\n| FR | 2.26 | |\n")
        wrong = list(results.wrong_figures(self.root, [
            {"table": "Small", "below": "Losses:", "measures": ["test_loss"]}],
            [table]))
        self.assertEqual(len(wrong), 1)
        self.assertIn("2.26 of FR", wrong[0])

    def test_conclusions_have_figures_of_tables_and_their_n(self):
        text = "| FR | 2.271 |"
        self.assertEqual(list(results.complaints(
            text, {"conclusion": ["FR has 2.271 (n = 3)."]})), [])
        self.assertEqual(len(list(results.complaints(
            text, {"conclusion": ["FR has 2.272."]}))), 2)


class Claims(unittest.TestCase):
    def lines(self, text):
        return [line for line, _ in claims.unproved(text)]

    def test_a_result_needs_the_number_of_runs(self):
        self.assertEqual(self.lines("FR loses 0.07 nats."), [1])
        for evidence in ("(n = 3)", "(one run)", "± 0.01", "in 11 rounds"):
            self.assertEqual(self.lines(f"FR loses 0.07 nats {evidence}."), [])

    def test_each_item_of_a_list_is_asked(self):
        self.assertEqual(
            self.lines("- A loss of 0.1, one run.\n- A loss of 0.2."), [2])

    def test_the_caption_of_a_table_counts(self):
        table = "| method | loss |\n|---|---|\n| FR | 2.1 |"
        self.assertEqual(self.lines(f"Losses:\n\n{table}"), [3])
        self.assertEqual(self.lines(f"One run each:\n\n{table}"), [])

    def test_settings_code_and_links_are_no_claims(self):
        self.assertEqual(self.lines("A momentum of 0.9 (arXiv:1901.08164)."), [])
        self.assertEqual(self.lines("    a loss of 0.1"), [])
        self.assertEqual(self.lines("`loss 0.1` is [here](loss-0.1.md)."), [])

    def test_exceptions_that_nothing_needs_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "README.md").write_text("A loss of 0.1.")
            needed = {"page": "README.md", "text": "A loss"}
            self.assertEqual(list(claims.without_evidence(root, [needed])), [])
            self.assertEqual(len(list(claims.without_evidence(
                root, [needed, needed | {"text": "An error"}]))), 1)


if __name__ == "__main__":
    unittest.main()
