#include "experiments/program/help/method_examples.h"

#include <cstdint>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"

namespace sluice {

MethodExample example_of(const PolicyRow& row) {
  // Options of the policy; empty for one of a plug-in that describes none.
  const std::string_view options =
      row.make.page == nullptr ? "" : row.make.page().example;
  return {.keys = fmt::format("boundary = {{policy = '{}'{}{}}}\n", row.name,
                              options.empty() ? "" : ", ", options)};
}

MethodExample example_of(const PresetRow& row) {
  const ConfigNode& model = row.make->about.model;
  const bool is_any = std::holds_alternative<std::monostate>(model.value);
  return {.keys = row.make->config(), .model = is_any ? "" : model.literal()};
}

Experiment example_experiment(const MethodExample& example, ExampleShape shape,
                              bool with_its_model) {
  const bool has_own = with_its_model && !example.model.empty();
  const ConfigNode small =
      parse_toml(fmt::format("turns = 24\nevaluate_every = 0.0\n"
                             "batch_size = 16\nthreads = 1\n"
                             "data = {{train = 64, test = 16}}\nmodel = {}\n",
                             has_own ? example.model
                                     : "{name = 'mlp', hidden = [16, 16, 16]}"),
                 "the method's page");
  // The example's keys may be of tables that `small` has too.
  ConfigNode config =
      merged(small, parse_toml(example.keys, "the method's page"));
  if (config.find("blocks") == nullptr)
    config.set_path("blocks", {.value = std::int64_t{shape.blocks}});
  if (config.find("replicas") != nullptr)
    config.set_path("replicas.count", {.value = shape.replicas});
  return read_experiment(config, "");
}

}  // namespace sluice
