#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/api/network_options.h"
#include "experiments/api/own_model.h"
#include "lib/base/config_node.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice {

/// The command line of a program of one's own, for the commands of `sluice`:
/// where one wants a config and none is named it gets a file with the program's
/// own, which is there as long as this object.
class OwnCommandLine {
 public:
  /// `program`: its name. Throws UserError when the file can't be written.
  OwnCommandLine(int argc, char** argv, const ConfigNode& config,
                 const std::string& program);

  /// Arguments as main() gets them, with a null pointer at the end; valid while
  /// this object lives.
  std::vector<char*> arguments();

 private:
  std::vector<std::string> words_;
  std::optional<TemporaryFolder> folder_;
};

/// Made and tried in this thread alone: those that LibTorch starts for large
/// layers would be there before the commands have arranged for signals.
OwnModel model_of_program(const NetworkOptions& options);

}  // namespace sluice
