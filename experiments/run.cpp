#include "experiments/run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "experiments/assembly.h"
#include "experiments/console.h"
#include "experiments/engines.h"
#include "experiments/run_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/coordinator.h"

namespace sluice {
namespace {

/// Hands each record to the file and the console, stamped with the seconds
/// since the start, and remembers the last evaluation.
class RunSink final : public Sink {
 public:
  RunSink(std::shared_ptr<Sink> file, std::shared_ptr<Sink> console)
      : file_(std::move(file)), console_(std::move(console)) {}

  void write(const Record& record) override {
    Record stamped = record;
    stamped.set("time", seconds());
    if (record.find("accuracy") && !record.find("block")) last_ = record;
    file_->write(stamped);
    console_->write(stamped);
  }
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }
  const Record& last_evaluation() const { return last_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<Sink> file_;
  std::shared_ptr<Sink> console_;
  Clock::time_point started_ = Clock::now();
  Record last_;
};

Record summary_of(const Experiment& experiment, const RunResult& result) {
  Record record;
  record.set("kind", "summary");
  record.set("name", experiment.name);
  record.set("method", method_of(experiment));
  record.set("engine", experiment.engine);
  record.set("blocks", std::int64_t{experiment.blocks()});
  record.set("accuracy", result.accuracy);
  record.set("loss", result.loss);
  record.set("seconds", result.seconds);
  record.set("samples_per_second", result.samples_per_second);
  return record;
}

/// Only block 1 needs the samples, maybe in another process; but a damaged file
/// should be found before anything is written.
void read_samples(const Experiment& experiment) {
  experiment.data->train.samples();
  experiment.data->test.samples();
}

}  // namespace

RunResult run(const Experiment& experiment, const RunOptions& options,
              StopSignals& signals) {
  read_samples(experiment);
  const RunFolder folder(options.folder.empty()
                             ? free_run_folder(experiment.name)
                             : options.folder,
                         experiment, options.command, options.overwrite);
  const auto file = folder.metrics();
  const auto sink =
      std::make_shared<RunSink>(file, std::make_shared<Console>(experiment));
  Coordinator coordinator(experiment.length, experiment.blocks(), sink,
                          [&](std::int64_t turn) {
                            finish_checkpoint(folder.checkpoints(), turn);
                          });

  signals.on_stop([&] { coordinator.request_stop(); });
  run_engine(experiment, folder, options.program, coordinator);
  signals.on_stop(nullptr);

  RunResult result{.folder = folder.path()};
  result.seconds = coordinator.seconds();
  result.complete = !coordinator.stopped_early();
  result.accuracy = sink->last_evaluation().number("accuracy", 0);
  result.loss = sink->last_evaluation().number("loss", 0);
  result.samples_per_second =
      static_cast<double>(coordinator.turns_granted()) *
      static_cast<double>(experiment.data->train.size()) /
      static_cast<double>(experiment.turns_per_epoch) /
      std::max(result.seconds, 1e-9);
  file->write(summary_of(experiment, result));
  if (result.complete) folder.mark_done();
  return result;
}

}  // namespace sluice
