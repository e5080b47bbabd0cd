#pragma once

#include <string>

#include "experiments/program/data_commands.h"
#include "experiments/program/own_loop.h"

namespace sluice {

/// The program that the commands of `sluice` are given to.
struct ProgramOptions {
  std::string name = "sluice";  ///< begins each error
  std::string summary =
      "Sluice trains neural networks that are cut into blocks.";
  /// `data fetch`, and what it can bring; nullptr: the program has no such
  /// command.
  void (*fetch)(const DataFetchArguments& arguments) = nullptr;
  std::string fetchable = {};
  /// What `doctor` says of data sets in a folder.
  std::string (*fetched)(const std::string& root) = nullptr;
  OwnLoop loop = {};  ///< of the program: what `sweep` starts
};

/// Reads the command line and does what it says. Returns the exit status;
/// errors are said in a line on stderr.
int run_command_line(int argc, char** argv, const ProgramOptions& program);

}  // namespace sluice
