#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/program/commands.h"

namespace sluice {

// `sluice data`, after its command line was parsed.

struct DataOrderArguments {
  ConfigArguments config;
  std::int64_t turns = 0;  ///< 0: all of the run
  /// "masks", "labels", "projections": what else is written, into a file.
  std::vector<std::string> with = {};
  std::string file = "order.safetensors";
};
/// Prints a line per batch of the run: its number, the epoch, and the positions
/// of its samples (Samples::position), with a space between. Then writes what
/// else was asked for (runs/keyed_tensors.h), and says so on stderr.
void data_order_command(const DataOrderArguments& arguments);

struct DataCheckArguments {
  ConfigArguments config;
  bool list = false;  ///< a line for each file
};
/// Reads all data that a config names, and prints what was found and a line for
/// each file or sample that is damaged. Throws UserError at the end where some
/// are, unless the config leaves them out.
void data_check_command(const DataCheckArguments& arguments);

struct DataFetchArguments {
  std::vector<std::string> names;
  std::string root;
  std::string url;  ///< instead of the published one
};
/// Downloads published data sets.
void data_fetch_command(const DataFetchArguments& arguments);

/// Names of what can be fetched: "mnist, cifar10".
std::string fetchable_sets();

/// A line for each of them: whether its files are in the folder `root` (may be
/// ""), and else the command that brings them.
std::string fetched_sets(const std::string& root);

}  // namespace sluice
