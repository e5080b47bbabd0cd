#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice {

/// Commands that are refused: one error line, exit status 2, nothing written.
class RefusedCommand : public Program {
 protected:
  RefusedCommand() { std::filesystem::create_directory(path("work")); }

  /// Runs sluice in the folder `work` of the test's own, and expects that.
  /// `before` is put before the program: variables of its environment.
  void expect_refusal(const std::string& arguments, const std::string& says,
                      const std::string& before = "") const {
    expect_refusal(arguments, std::vector<std::string>{says}, before);
  }
  /// The line has all of `says`.
  void expect_refusal(const std::string& arguments,
                      const std::vector<std::string>& says,
                      const std::string& before = "") const {
    const auto there = files();
    const Outcome run =
        shell(fmt::format("cd {}/work && timeout 60 {} {} {}", folder_, before,
                          SLUICE_PROGRAM, arguments));
    EXPECT_EQ(run.status, 2) << run.text;
    for (const std::string& part : says)
      EXPECT_NE(run.text.find(part), std::string::npos) << part << run.text;
    EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1)
        << run.text;
    EXPECT_EQ(std::count_if(run.text.begin(), run.text.end(), is_unseen), 1)
        << run.text;
    EXPECT_EQ(run.text.find("json.exception"), std::string::npos) << run.text;
    EXPECT_EQ(files(), there) << run.text;
  }

  /// Whether a character is one that a terminal may obey; the line's end is.
  static bool is_unseen(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  }

  /// Files below the test's folder, with the sizes and times of files: a lock
  /// that was there meanwhile moves the time of its folder.
  std::map<std::string, std::string> files() const {
    namespace fs = std::filesystem;
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      std::error_code none;
      std::string& file = found[entry.path().string()];
      if (!entry.is_directory(none))
        file = fmt::format(
            "{} {}", entry.is_regular_file(none) ? entry.file_size(none) : 0,
            entry.last_write_time(none).time_since_epoch().count());
    }
    return found;
  }
};

}  // namespace sluice
