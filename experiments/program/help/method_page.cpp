#include "experiments/program/help/method_page.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/presets/published.h"
#include "experiments/planner/method_axes.h"
#include "experiments/program/help/axes_table.h"
#include "experiments/program/help/method_examples.h"
#include "lib/boundaries/boundary.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/drawing.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {
namespace {

constexpr std::size_t kPageWidth = 80;

/// A heading and its paragraph, broken into lines.
std::string paragraph(std::string_view heading, std::string_view text) {
  if (text.empty()) return "";
  std::string lines;
  std::string line = fmt::format("{:<13}", heading);
  std::istringstream words{std::string(text)};
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && line.size() + 1 + word.size() > kPageWidth) {
      lines += line + "\n";
      line = std::string(13, ' ');
      is_first = true;
    }
    line += (is_first ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// Equal blocks, a backward takes two forwards, nothing else takes time.
Costs ideal_costs(int blocks, double latency) {
  return {.blocks = std::vector<BlockCosts>(
              static_cast<std::size_t>(blocks),
              {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
          .latency = latency};
}

/// The part of a page's simulation that is drawn.
struct DrawnPart {
  std::int64_t first_turn = 0;
  double columns = 24;  // it fits a terminal
};

std::string drawing_of(const Experiment& experiment, const Costs& costs,
                       DrawnPart part) {
  std::vector<TimedAction> shown;
  std::optional<double> start;
  for (TimedAction timed :
       simulate(experiment.plans.front(), costs, experiment.capacities,
                Grant{.end_turn = part.first_turn + 12})) {
    const Op op = timed.action.op;
    const bool is_hidden = op == Op::update || op == Op::exchange;
    if (is_hidden || timed.action.turn < part.first_turn) continue;
    if (!start) start = timed.start;
    timed.start -= *start;
    timed.end -= *start;
    if (timed.end <= part.columns) shown.push_back(timed);
  }
  return draw_timeline(shown, experiment.seat_names(), 1);
}

std::string timeline_of(const MethodExample& example) {
  const Experiment experiment = example_experiment(example, {.blocks = 3});
  return drawing_of(experiment, ideal_costs(experiment.blocks(), 0), {});
}

/// Three replicas, or two where they meet in pairs, around their first
/// exchange.
std::string timeline_of_replicas(const MethodExample& example) {
  const ConfigNode keys = parse_toml(example.keys, "the method's page");
  const bool has_pairs = keys.find("replicas")->find("pairs") != nullptr;
  const Experiment experiment =
      example_experiment(example, {.blocks = 1, .replicas = has_pairs ? 2 : 3});
  Costs costs = ideal_costs(1, 0);
  costs.exchange_link.latency = 0.5;
  const ReplicaExchange& exchange =
      experiment.plans.front().blocks.front().exchange;
  return drawing_of(
      experiment, costs,
      {.first_turn = std::max<std::int64_t>(0, exchange.every - 3),
       .columns = 16});
}

double speed_up(const Experiment& experiment, double latency,
                Barrier barrier = Barrier::none) {
  RunPlan plan = experiment.plans.front();
  plan.barrier = barrier;
  return steady_speed(plan, ideal_costs(experiment.blocks(), latency),
                      experiment.capacities)
      .speed_up;
}

/// A barrier ends every turn, which neither a pipe that isn't flushed knows nor
/// blocks that run free.
std::string speed_up_with_barrier(const Experiment& experiment) {
  if (!experiment.pipeline.flush || experiment.free_schedule) return "";
  return fmt::format(
      ", {:.2f}x with barrier = \"iteration\" and no latency",
      speed_up(experiment, 0,
               barrier_around_iterations(experiment.plans.front())));
}

std::string speed_ups_of(const MethodExample& example) {
  const Experiment experiment = example_experiment(example, {.blocks = 4});
  return fmt::format(
      "{:.2f}x without latency, {:.2f}x when a message takes as long as a "
      "forward{}: for K = 4 equal blocks, over one block that does all the "
      "work, where a backward takes as long as two forwards, and heads and "
      "updates take no time.",
      speed_up(experiment, 0), speed_up(experiment, 1),
      speed_up_with_barrier(experiment));
}

/// What the program finds out about the method's three axes.
std::string axes_of(const MethodExample& example) {
  const planner::MethodAxes axes =
      planner::method_axes(example_experiment(example, kAxesShape, true));
  return paragraph("computation", planner::computation_text(axes)) +
         paragraph("sends", planner::communication_text(axes)) +
         paragraph("keeps", planner::approximation_text(axes)) +
         paragraph("", example.keys.find("[replicas]") == std::string::npos
                           ? "(beside back-propagation, in four blocks)"
                       : example.keys.find("blocks = 1") == std::string::npos
                           ? "(beside back-propagation, in four replicas of "
                             "four blocks)"
                           : "(beside back-propagation, in four replicas)");
}

/// Tests of the published systems that name the method.
std::string tests_of(std::string_view name) {
  const std::string row = fmt::format("methods {}", name);
  std::string tests;
  for (const PublishedSystem& system : published_systems().systems)
    if (std::find(system.rows.begin(), system.rows.end(), row) !=
        system.rows.end())
      for (const std::string& test : system.tests)
        if (const std::string called = test.substr(test.rfind(' ') + 1);
            tests.find(called) == std::string::npos)
          tests += (tests.empty() ? "" : " ") + called;
  return tests;
}

constexpr std::string_view kLegend =
    "\nIn three blocks (F forward, B backward and update of a batch, D and W a "
    "backward in\nhalves, L a synthesizer learns from it; - busy, . waiting; a "
    "column is as long as a\nforward):\n\n";

constexpr std::string_view kReplicasLegend =
    "\nReplicas of one block, about their first exchange (F forward, B "
    "backward "
    "and\nupdate of a batch, S takes what others have handed over; - busy, . "
    "waiting; a\ncolumn is as long as a forward, and as two messages one after "
    "the other):\n\n";

std::string page_of(const PolicyRow& row) {
  const bool has_page = row.make.page != nullptr;  // a plug-in's may have none
  const MethodPage page = has_page ? row.make.page() : MethodPage();
  const MethodExample example = example_of(row);
  std::string text = fmt::format("{}: {}\n\n", row.name, row.summary);
  text += paragraph("source", page.source);
  text += paragraph("kept", page.kept);
  text += paragraph("BatchNorm", page.batch_norm);
  text += paragraph("randomness", page.randomness);
  text += paragraph("staleness", page.staleness);
  if (has_page) text += axes_of(example);
  text += paragraph("speed-up", speed_ups_of(example));
  text += paragraph("tests", tests_of(row.name));
  if (!page.example.empty()) text += paragraph("example", page.example);
  return text.append(kLegend) + timeline_of(example);
}

std::string indented(std::string_view lines) {
  std::string text;
  std::istringstream all{std::string(lines)};
  for (std::string line; std::getline(all, line);)
    text += line.empty() ? "\n" : "    " + line + "\n";
  return text;
}

std::string page_of(const PresetRow& row) {
  const PublishedConfig& config = *row.make;
  const MethodExample example = example_of(row);
  std::string text = fmt::format("{}: {}\n\n", row.name, row.summary);
  text += paragraph("source", config.about.source);
  text += paragraph("kept", config.about.kept);
  text += paragraph("staleness", config.about.staleness);
  text += axes_of(example);
  if (!config.is_of_replicas())
    text += paragraph("speed-up", speed_ups_of(example));
  text += paragraph("tests", tests_of(row.name));
  text += fmt::format("\nIn a config, as in experiments/configs/{}.toml:\n\n{}",
                      config.file, indented(config.config()));
  if (config.is_of_replicas())
    return text.append(kReplicasLegend) + timeline_of_replicas(example);
  return text.append(kLegend) + timeline_of(example);
}

}  // namespace

std::string method_page(std::string_view name) {
  std::vector<Row<std::function<std::string()>>> pages;
  for (const PolicyRow& row : policies())
    pages.push_back({row.name, row.summary, [&row] { return page_of(row); }});
  for (const PresetRow& row : presets())
    pages.push_back({row.name, row.summary, [&row] { return page_of(row); }});
  return find_row(std::span<const Row<std::function<std::string()>>>(pages),
                  name, "method")
      .make();
}

}  // namespace sluice
