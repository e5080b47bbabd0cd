#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Progress of the run in a line: on a terminal it is written over and over;
/// elsewhere a line per evaluation and every few seconds.
class Console final : public Sink {
 public:
  Console(const Experiment& experiment, std::int64_t first_turn);
  ~Console() override;

  void write(const Record& record) override;

 private:
  using Clock = std::chrono::steady_clock;

  std::string progress() const;
  std::string rate() const;
  void show(const std::string& line);
  void leave(const std::string& line);

  std::int64_t turns_;
  Epochs epochs_;
  std::int64_t batch_size_;
  std::int64_t tokens_per_sample_;  // 0: samples are no texts
  bool is_terminal_;
  bool line_is_open_ = false;
  Clock::time_point started_;
  Clock::time_point shown_;
  std::int64_t first_turn_;
  std::int64_t turn_;
  std::map<int, records::Train> latest_;  // by block
};

}  // namespace sluice
