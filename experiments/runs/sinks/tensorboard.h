#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/config_node.h"
#include "lib/base/files/output_file.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// Metrics as a TensorBoard event file: a tag for each number, "block1/loss" or
/// "evaluation/accuracy", by turn. The file is a TFRecord of Event protocol
/// buffers (tensorflow/core/util/event.proto, summary.proto; of the HParams
/// page tensorboard/plugins/hparams/plugin_data.proto); the few fields of them
/// that are needed are written by hand.
class TensorBoardFile final : public Sink {
 public:
  /// Makes "events.out.tfevents.<seconds>.<host>" in the folder; event files of
  /// an earlier part of the run are removed: the caller writes its history
  /// again. `start`: when the run began, in seconds since 1970. Throws
  /// UserError.
  TensorBoardFile(const std::string& folder, double start);
  ~TensorBoardFile() override;

  /// What the HParams page shows of the run: the config's values by their
  /// dotted keys, lists as texts.
  void tell_config(const ConfigNode& resolved);
  /// Adds "speed/samples_per_second" from now on, at most once a second, by the
  /// turns and times of block 1's records; evaluations between them count.
  void measure_speed(double samples_per_turn) {
    samples_per_turn_ = samples_per_turn;
  }

  /// A record with a "turn"; of a block at the run's end its bytes of memory,
  /// at the last turn with a record. Written through at least once a second.
  void write(const Record& record) override;

  /// Whether a file of a run's folder is for TensorBoard.
  static bool is_one(std::string_view file_name);

 private:
  struct ReachedTurn {
    std::int64_t turn = 0;
    double time = 0;
  };

  void append(const std::string& event);
  void flush();
  std::string speed_of(const Record& record);

  std::string path_;
  OutputFile file_;
  double start_;
  SteadyTime flushed_ = {};
  double samples_per_turn_ = 0;  ///< 0: unknown
  std::optional<ReachedTurn> measured_;
  std::int64_t last_turn_ = 0;  ///< of those told
};

}  // namespace sluice
