#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/output_file.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// Metrics as a TensorBoard event file: a tag for each number, "block1/loss" or
/// "evaluation/accuracy", by turn. The file is a TFRecord of Event protocol
/// buffers (tensorflow/core/util/event.proto, summary.proto); the few fields of
/// them that scalars need are written by hand.
class TensorBoardFile final : public Sink {
 public:
  /// Makes "events.out.tfevents.<seconds>.<host>" in the folder; event files of
  /// an earlier part of the run are removed: the caller writes its history
  /// again. `start`: when the run began, in seconds since 1970. Throws
  /// UserError.
  TensorBoardFile(const std::string& folder, double start);
  ~TensorBoardFile() override;

  /// A record with a "turn". Written through at least once a second.
  void write(const Record& record) override;

  /// Whether that file in a run's folder is one of these.
  static bool is_one(std::string_view file_name);

 private:
  void append(const std::string& event);
  void flush();

  std::string path_;
  OutputFile file_;
  double start_;
  SteadyTime flushed_ = {};
};

}  // namespace sluice
