"""What scripts/words finds, and what it lets pass.

usage: words_test.py FOLDER_OF_SCRIPTS
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest


def scripts_words(folder):
    loader = importlib.machinery.SourceFileLoader(
        "words", str(pathlib.Path(folder) / "words"))
    spec = importlib.util.spec_from_loader("words", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Words(unittest.TestCase):
    def kinds(self, text):
        return [kind for kind, _, _ in
                words.in_comments("a.cpp", text.splitlines(), "//")]

    def test_the_first_word_of_a_comment_counts(self):
        self.assertEqual(self.kinds("/// Of a block.\nint a;"),
                         ["comment begins with Of"])
        self.assertEqual(self.kinds("int a;  // The same of replicas"),
                         ["comment begins with The same"])

    def test_the_first_word_of_a_comments_second_line_does_not(self):
        self.assertEqual(self.kinds("// The number\n// Of blocks."), [])

    def test_processes_that_are_told_are_found_anywhere(self):
        self.assertEqual(self.kinds("// Rank 1 is told. Nobody waits."),
                         ["nobody", "told, asked or heard"])

    def test_code_and_addresses_are_no_comments(self):
        self.assertEqual(self.kinds('f("It", "https://It");\nint Nobody;'), [])

    def test_names_of_tests_that_begin_with_of_are_found(self):
        found = list(words.in_tests(
            ["TEST_F(Quorum,", "       OfThree) {}", "TEST(A, Often) {}"]))
        self.assertEqual(found, [("test name begins with Of", 1,
                                  "Quorum.OfThree")])

    def types(self, *lines):
        return [name for _, _, name in words.in_types(lines, {"Speed"})]

    def test_types_that_are_no_nouns_are_found(self):
        self.assertEqual(
            self.types("struct Asked {", "  enum class FromAbove : int {",
                       "template <class T> using ImagesFound = T;"),
            ["Asked", "FromAbove", "ImagesFound"])

    def test_nouns_fixtures_and_uses_of_types_pass(self):
        self.assertEqual(
            self.types("struct Speed {", "class SentMessage final : X {",
                       "class Damaged : public Program {",
                       "TEST_F(Damaged, FilesAreNamed) {", "Asked one = {};"),
            [])

    def test_long_sentences_of_docs_are_found_outside_code(self):
        long = "word " * 41 + "end."
        self.assertEqual(len(list(words.in_docs([long]))), 1)
        self.assertEqual(list(words.in_docs(["    " + long])), [])
        self.assertEqual(list(words.in_docs(["```", long, "```"])), [])
        self.assertEqual(
            list(words.in_docs(["word " * 30 + "end. " + "Word " * 30])), [])


if __name__ == "__main__":
    words = scripts_words(sys.argv.pop())
    unittest.main()
