#include "experiments/program/method_page.h"

#include <functional>
#include <span>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/presets.h"
#include "lib/boundaries/boundary.h"
#include "lib/schedules/drawing.h"
#include "lib/schedules/speed.h"

namespace sluice {
namespace {

constexpr std::size_t kWidth = 80;
constexpr double kColumns = 24;  // of a drawing: it fits a terminal

/// A heading and its paragraph, broken into lines.
std::string paragraph(std::string_view heading, std::string_view text) {
  if (text.empty()) return "";
  std::string lines;
  std::string line = fmt::format("{:<13}", heading);
  std::istringstream words{std::string(text)};
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line = std::string(13, ' ');
      is_first = true;
    }
    line += (is_first ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// A small network with these keys.
Experiment example(std::string_view config, int blocks) {
  return read_experiment(
      parse_toml(
          fmt::format("blocks = {}\ndata = {{train = 64, test = 16}}\n"
                      "model = {{name = 'mlp', hidden = [16, 16, 16]}}\n{}",
                      blocks, config),
          "the method's page"),
      "");
}

/// Empty for a policy of a plug-in that describes none.
MethodPage page_text_of(const PolicyRow& row) {
  return row.make.page == nullptr ? MethodPage() : row.make.page();
}

/// The method at every boundary.
std::string config_of(const PolicyRow& row) {
  const std::string_view options = page_text_of(row).example;
  return fmt::format("boundary = {{policy = '{}'{}{}}}\n", row.name,
                     options.empty() ? "" : ", ", options);
}

/// Equal blocks, a backward takes two forwards, nothing else takes time.
Costs ideal_costs(int blocks, double latency) {
  return {.blocks = std::vector<BlockCosts>(
              static_cast<std::size_t>(blocks),
              {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
          .latency = latency};
}

std::string timeline_of(std::string_view config) {
  const Experiment experiment = example(config, 3);
  std::vector<TimedAction> shown;
  for (const TimedAction& timed :
       simulate(experiment.plans.front(), ideal_costs(3, 0),
                experiment.capacities, Grant{.end_turn = 12}))
    if (timed.action.op != Op::update && timed.end <= kColumns)
      shown.push_back(timed);
  return draw_timeline(shown, 3, 1);
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

std::string speed_ups_of(std::string_view config) {
  const Experiment experiment = example(config, 4);
  return fmt::format(
      "{:.2f}x without latency, {:.2f}x when a message takes as long as a "
      "forward{}: for K = 4 equal blocks, over one block that does all the "
      "work, where a backward takes as long as two forwards, and heads and "
      "updates take no time.",
      speed_up(experiment, 0), speed_up(experiment, 1),
      speed_up_with_barrier(experiment));
}

constexpr std::string_view kLegend =
    "\nIn three blocks (F forward, B backward and update of a batch, L a "
    "synthesizer\nlearns from it; - busy, . waiting; a column is as long "
    "as a forward):\n\n";

std::string page_of(const PolicyRow& row) {
  const MethodPage page = page_text_of(row);
  std::string text = fmt::format("{}: {}\n\n", row.name, row.summary);
  text += paragraph("source", page.source);
  text += paragraph("kept", page.kept);
  text += paragraph("BatchNorm", page.batch_norm);
  text += paragraph("randomness", page.randomness);
  text += paragraph("staleness", page.staleness);
  text += paragraph("speed-up", speed_ups_of(config_of(row)));
  if (!page.example.empty()) text += paragraph("example", page.example);
  return text.append(kLegend) + timeline_of(config_of(row));
}

std::string indented(std::string_view lines) {
  std::string text;
  std::istringstream all{std::string(lines)};
  for (std::string line; std::getline(all, line);)
    text += line.empty() ? "\n" : "    " + line + "\n";
  return text;
}

std::string page_of(const PresetRow& row) {
  const Preset& preset = row.make;
  std::string text = fmt::format("{}: {}\n\n", row.name, row.summary);
  text += paragraph("source", preset.source);
  text += paragraph("kept", preset.kept);
  text += paragraph("staleness", preset.staleness);
  text += paragraph("speed-up", speed_ups_of(preset.config));
  text += fmt::format(
      "\nIn a config, as in experiments/configs/pipelines/{}.toml:\n\n{}",
      row.name, indented(preset.config));
  return text.append(kLegend) + timeline_of(preset.config);
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
