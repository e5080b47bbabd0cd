#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// A net in two blocks of about the same work.
struct BlockCase {
  std::string_view name;
  std::string_view config;  ///< TOML lines; ROOT is the folder of data files
  std::string_view head = "linear";  ///< of local_loss
  /// For the methods without a head: an override that balances the net again.
  std::string_view without_head = {};
};

std::span<const BlockCase> block_cases();

/// A folder for the runs of a benchmark, with the data files of all cases;
/// removed at its end.
class CaseFolder {
 public:
  /// Throws UserError when there is no case `only`; empty: all.
  explicit CaseFolder(const std::string& only);
  ~CaseFolder();
  CaseFolder(const CaseFolder&) = delete;
  CaseFolder& operator=(const CaseFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Into `root`, as case.toml. Returns the text.
std::string write_case(const BlockCase& of, const std::string& root);

/// The method at every boundary, as overrides of a command line: a policy, or
/// pipeline_of() with exact gradients.
std::string method_of(const BlockCase& of, std::string_view method);

/// The table [pipeline] of an order and its micro-batches, "1f1b:4", or of
/// PipeDream-2BW, "2bw"; empty for a policy.
std::string pipeline_of(std::string_view method);

/// What balances the net's blocks for that method, likewise.
std::string balanced_for(const BlockCase& of, std::string_view method);

/// What a run of the program came to.
struct MeasuredRun {
  double seconds = 0;  ///< of a turn, once the pipe is full
  /// The work of the block that has less, over that of the one that has most.
  double balance = 0;
};

/// Trains what lies in case.toml. Throws UserError when that fails.
MeasuredRun train_case(const std::string& root, const std::string& overrides);

}  // namespace sluice
