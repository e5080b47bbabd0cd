#include "experiments/config/pipeline_settings.h"

#include <vector>

#include <fmt/format.h>

#include "lib/base/plug_in.h"
#include "lib/schedules/orders/rows.h"
#include "lib/weights/weight_view.h"

namespace sluice {
namespace {

Names<WeightsAtBackward> window_views() {
  Names<WeightsAtBackward> names = {{"latest", {}}};
  for (const WeightViewRow& row : weight_views())
    if (row.make.by_window)
      names.push_back({std::string(row.name), weights_at_backward(row.name)});
  return names;
}

std::string summaries_of_windows() {
  std::string text;
  for (const WeightViewRow& row : weight_views())
    if (row.make.by_window)
      text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", row.name,
                          row.summary);
  return text;
}

/// The names of the schedules of blocks in lockstep.
std::vector<std::string> orders() {
  std::vector<std::string> names = names_of(schedule_rows());
  std::erase(names, "free");
  return names;
}

}  // namespace

void PipelineSettings::describe(Fields& fields) {
  fields.key(
      "order", order,
      {.text = "order in which the blocks do these batches; changes no result",
       .allowed = orders()});
  fields.key("micro_batches", micro_batches,
             {.text = "number of micro-batches of a turn, each with its "
                      "share of the loss; must divide batch_size, and be 1 "
                      "where a boundary delays. Synthesizers and input models "
                      "learn from each",
              .unit = "batches",
              .min = 1,
              .max = 256});
  fields.key("flush", flush,
             {.text = "whether the pipe is emptied after each turn; if not, "
                      "order = '1f1b' begins the next turn at once, which "
                      "changes no result"});
  fields.key("weights", weights, window_views(),
             {.text = "weights that the batches of an update see: latest, "
                      "those after the previous update; " +
                      summaries_of_windows()});
  fields.key("recompute", recompute,
             {.text = "keep only the input of a batch, and build the graph "
                      "of its backward anew: saves memory, costs a second "
                      "forward. Changes no result"});
  fields.key(
      "executors", executors,
      {.text = "with order = 'interleaved': number of threads or "
               "processes that share the blocks; block k runs in "
               "the one of block k - executors. 0: as many as the order "
               "wants, with 'zb-v' one for two blocks, else one for each",
       .min = 0,
       .max = 4096});
  if (executors > 0 && order != "interleaved")
    fields.reject("executors",
                  fmt::format("order = '{}' has its own number of them: leave "
                              "it out, or set order = 'interleaved'",
                              order));
}

}  // namespace sluice
