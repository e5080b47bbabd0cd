#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/engines/virtual_crew.h"
#include "tests/benchmarks/speed_training.h"

namespace sluice {
namespace {

constexpr std::int64_t kEndless = 1'000'000'000;

/// Does with a record what the metrics file does, but for the disk.
class JsonSink final : public Sink {
 public:
  void write(const Record& record) override {
    bytes_ += to_json(record).size();
  }

 private:
  std::size_t bytes_ = 0;
};

Experiment experiment_of(const SpeedCase& of, std::int64_t threads, bool bf16,
                         const std::string& root) {
  std::string lines(of.config);
  for (std::size_t at = 0; (at = lines.find("ROOT", at)) != lines.npos;)
    lines.replace(at, 4, root);
  // With one thread, batches are not made by a second one either.
  if (threads == 1) lines.insert(lines.find("data = {") + 8, "prefetch = 0, ");
  return read_experiment(
      parse_toml(fmt::format("blocks = 1\nbatch_size = {}\nturns = {}\n"
                             "threads = {}\nprecision = '{}'\n{}",
                             of.batch_size, kEndless, threads,
                             bf16 ? "bf16" : "fp32", lines),
                 "benchmark"),
      "");
}

}  // namespace

void train_with_sluice(const SpeedCase& of, std::int64_t threads, bool bf16,
                       const std::string& root, Turns& turns) {
  const Experiment experiment = experiment_of(of, threads, bf16, root);
  prepare_process(experiment);
  const auto sink = std::make_shared<JsonSink>();
  const Seats seats = {make_seat(
      experiment, 1, std::move(memory_ends(experiment)[0]), sink, {})};
  RunLength length = experiment.length;
  length.evaluation_batches = 0;
  Coordinator coordinator(length, 1, sink, nullptr);
  VirtualCrew crew(seats,
                   {.plans = experiment.plans,
                    .capacities = experiment.capacities,
                    .threads = threads,
                    .watch =
                        [&turns](const TimedAction& timed) {
                          if (timed.action.op == Op::update) turns.stepped();
                        }},
                   events_for(coordinator));
  run_to_end(crew, coordinator);
}

double forward_flops(const SpeedCase& of, const std::string& root) {
  const Experiment experiment = experiment_of(of, 1, false, root);
  double flops = 0;
  for (const LayerSpec& layer : experiment.model.layers) flops += layer.flops;
  return flops * static_cast<double>(of.batch_size);
}

}  // namespace sluice
