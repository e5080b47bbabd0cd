#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "lib/boundaries/boundary.h"

namespace sluice {

struct Outcome {
  int status = 0;    ///< -1: it was ended by a signal
  std::string text;  ///< stdout and stderr
};

/// Whether programs can be given a limit on the size of files: the thread
/// sanitizer keeps memory of its own in one.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kFilesCanBeLimited = false;
#else
inline constexpr bool kFilesCanBeLimited = true;
#endif

/// Runs a command line.
Outcome shell(const std::string& command);

/// Runs the real program.
Outcome sluice(const std::string& arguments);

/// All of a file; empty when it is not there.
std::string slurp(const std::string& path);

/// A folder of the test's own, removed afterwards.
class Program : public testing::Test {
 protected:
  Program();
  ~Program() override {
    std::error_code ignored;  // a process that was left may write there
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& text) const;
  /// Runs a config of 12 turns on an engine, in the folder of its name; the
  /// weights of its last checkpoint.
  NamedTensors weights_on(const std::string& engine, const std::string& config);

  std::string folder_;
};

/// A config of 12 turns, 10 to an epoch, with `lines` of its own.
std::string config_with(const std::string& lines);

}  // namespace sluice
