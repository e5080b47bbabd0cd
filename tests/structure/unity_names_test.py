#!/usr/bin/env python3
"""Plants names that clash, and names that don't, and checks what is found."""
import unittest

import unity_names


class UnityNames(unittest.TestCase):
    def found(self, first, second, other="lib/b.cpp"):
        return list(unity_names.complaints({"lib/a.cpp": first, other: second}))

    def test_a_constant_in_two_sources_of_a_library_is_found(self):
        for other in ["constexpr double kWidth = 2;",
                      "constexpr std::chrono::seconds kWidth(2);",
                      "constexpr std::array<int, 2> kWidth = {1, 2};",
                      "static constexpr int kWidth[] = {1};"]:
            self.assertEqual(self.found("constexpr int kWidth{1};\n", other),
                             ["kWidth: lib/a.cpp, lib/b.cpp"])

    def test_a_type_in_two_sources_of_a_library_is_found(self):
        for other in ["class Place {", "struct Place final : Base {",
                      "enum class Place : int {"]:
            self.assertEqual(self.found("struct Place {\n", other),
                             ["Place: lib/a.cpp, lib/b.cpp"])

    def test_names_that_do_not_meet_are_accepted(self):
        self.assertEqual(self.found("constexpr int kWidth = 1;",
                                    "constexpr int kHeight = kWidth;"), [])
        self.assertEqual(self.found("struct Place {", "struct Place {",
                                    other="transport/b.cpp"), [])
        self.assertEqual(self.found("struct Place {", "struct Place;"), [])
        self.assertEqual(self.found("  constexpr int kLocal = 1;",
                                    "  constexpr int kLocal = 1;"), [])


if __name__ == "__main__":
    unittest.main()
