#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// How a run goes, for `sluice watch`: keeps the records::Status that workers
/// send every second, and writes the newest with what metrics say
/// beside them into the folder's status.json, once a second and at the end; all
/// others it passes on. The file is replaced as a whole, so that a reader, on
/// another host too, sees one state.
class StatusFile final : public Sink {
 public:
  /// The experiment must outlive this object.
  StatusFile(const Experiment& experiment, std::string folder,
             std::shared_ptr<Sink> next);

  /// Throws UserError when the file can't be written.
  void write(const Record& record) override;
  /// The run is over, in the words of the state: "done", "stopped", "failed",
  /// "diverged".
  void finish(const std::string& state);

 private:
  struct BlockStatus {
    std::optional<records::Status> status;
    std::optional<records::Train> train;
    double heard = 0;  // seconds since 1970
    // Over the time between the last two status records:
    double turns_per_second = 0;
    double waiting_share = 0;
  };
  void remember(const records::Status& status);
  void save(const std::string& state);

  const Experiment& experiment_;
  std::string path_;
  std::shared_ptr<Sink> next_;
  std::map<std::pair<int, int>, BlockStatus> blocks_;  // by replica, block
  std::optional<records::Evaluation> evaluation_;
  SteadyTime saved_ = {};
};

std::string status_of_run(const std::string& folder);

}  // namespace sluice
