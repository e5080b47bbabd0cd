// How true `sluice plan --compare` is: the speed-up of two blocks, or of
// replicas, over one block that it predicts, against that of real runs in
// processes, with one intra-op thread everywhere, in samples per second. In
// each round it is calibrated anew, then one block and each method train; all
// figures are medians over the rounds, with their quartiles. `difference` is
// that of predicted over measured, round by round. Other programs beside it
// make all of it doubtful, which the last line then says.
//
// usage: planner_benchmark [ROUNDS] [CASE|all] [METHOD[*REPLICAS] ...]
//        "one*2": two replicas of one block; "1f1b:4*2": of two blocks
// default: 5 rounds, all cases, all methods
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/comparison.h"
#include "experiments/planner/other_load.h"
#include "lib/base/error.h"
#include "tests/benchmarks/block_cases.h"
#include "tests/benchmarks/ratios.h"

namespace sluice {
namespace {

using Methods = std::vector<std::string>;
const Methods& all_methods() {
  static const Methods all = {
      "local_loss", "fully_decoupled", "delayed_gradient", "features_replay",
      "gpipe:4",    "1f1b:4",          "zb-h1:4"};
  return all;
}

// Time for each method: one round of as many turns as `plan --compare` prefers.
constexpr double kSecondsToCalibrate = 20;
// Cores that other programs may take.
constexpr double kQuiet = 0.1;

struct Finding {
  Ratios predicted, measured, over;
};

/// "1f1b:4*2" is a method of two replicas.
struct Shape {
  std::string method;
  std::int64_t replicas = 1;

  explicit Shape(const std::string& text) : method(text) {
    const auto star = text.find('*');
    if (star == text.npos) return;
    method = text.substr(0, star);
    replicas = std::stoll(text.substr(star + 1));
  }
  std::int64_t blocks() const { return method == "one" ? 1 : 2; }
};

planner::PlannedMethod planned(const std::string& method,
                               const Experiment& of) {
  if (method == "one") return planner::planned_method("backprop", of);
  const std::string pipeline = pipeline_of(method);
  if (pipeline.empty()) return planner::planned_method(method, of);
  planner::PlannedMethod made = planner::planned_method("backprop", of);
  made.label = method;
  made.pipeline = override_value(pipeline, "planner_benchmark");
  return made;
}

double predicted_speed_up(const std::string& text, const Shape& shape) {
  ConfigNode config = parse_toml(text, "case.toml");
  apply_override(config, "threads=1");
  const Experiment experiment = read_experiment(config, "");
  const auto rows =
      planner::compare_methods(config, "",
                               {.methods = {planned(shape.method, experiment)},
                                .blocks = {shape.blocks()},
                                .replicas = {shape.replicas},
                                .seconds = kSecondsToCalibrate,
                                .most_rounds = 1})
          .rows;
  if (!rows.at(0).impossible.empty())
    throw UserError("{}: {}", rows[0].method, rows[0].impossible);
  return rows[0].speed.speed_up;
}

/// Seconds of a turn of all.
double measured_seconds(const BlockCase& of, const Shape& shape,
                        const std::string& root) {
  const std::string method =
      shape.blocks() == 1 ? "blocks=1" : method_of(of, shape.method);
  return train_case(root, fmt::format("{} replicas.count={} engine=processes "
                                      "threads=1",
                                      method, shape.replicas))
      .seconds;
}

void measure(const BlockCase& of, int rounds, const Methods& methods,
             const std::string& root) {
  const std::string config = write_case(of, root);
  std::vector<Finding> found(methods.size());
  const planner::OtherLoad load;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const Shape shape(methods[i]);
      const double predicted = predicted_speed_up(config, shape);
      // One block right before, as in the calibration.
      const double one =
          train_case(root, "blocks=1 engine=virtual threads=1").seconds;
      const double measured = static_cast<double>(shape.replicas) * one /
                              measured_seconds(of, shape, root);
      found[i].predicted.values.push_back(predicted);
      found[i].measured.values.push_back(measured);
      found[i].over.values.push_back(predicted / measured);
    }
  }
  for (std::size_t i = 0; i < methods.size(); ++i)
    fmt::print("{:<5} {:<18} {:<18} {:<18} {:<18} {:+.1f} %\n", of.name,
               methods[i], found[i].predicted.text(), found[i].measured.text(),
               found[i].over.text(), 100 * (median(found[i].over.values) - 1));
  if (const double others = load.cores(); others > kQuiet)
    fmt::print("{:<5} doubtful: other programs kept {:.1f} cores busy\n",
               of.name, others);
  std::fflush(stdout);
}

void run(int rounds, const std::string& only, const Methods& methods) {
  const CaseFolder folder(only);
  fmt::print("{:<5} {:<18} {:<18} {:<18} {:<18} {}\n", "case", "method",
             "predicted", "measured", "predicted/measured", "difference");
  for (const BlockCase& each : block_cases())
    if (only.empty() || each.name == only)
      measure(each, rounds, methods, folder.path());
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    const int rounds = count > 1 ? std::max(1, std::stoi(arguments[1])) : 5;
    std::string only = count > 2 ? arguments[2] : "";
    if (only == "all") only.clear();
    const sluice::Methods methods(arguments + std::min(count, 3),
                                  arguments + count);
    sluice::run(rounds, only,
                methods.empty() ? sluice::all_methods() : methods);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
