#include "experiments/plugins/registration.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "auxiliary_heads/heads.h"
#include "experiments/data/data_sets.h"
#include "lib/base/added_rows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

bool can_be_written(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

template <class Make>
void Plugin::collect(std::string_view kind,
                     std::span<const Row<Make>> (*table)(),
                     const Row<Make>& row, bool makes) {
  if (!can_be_written(row.name))
    throw UserError(
        "registers a {} of the name '{}': a name has letters, digits, - and _",
        kind, row.name);
  const std::string text = fmt::format("{} '{}'", kind, row.name);
  const std::span<const Row<Make>> rows = table();
  const bool is_there =
      std::find(names_.begin(), names_.end(), text) != names_.end() ||
      std::any_of(rows.begin(), rows.end(), [&](const Row<Make>& other) {
        return other.name == row.name;
      });
  if (is_there)
    throw UserError(
        "registers the {}, and there is one of that name already: give it "
        "another name",
        text);
  if (!makes) throw UserError("registers the {} with nothing to make it", text);
  names_.push_back(text);
  const Row<Make> kept = {added_rows::keep(row.name),
                          added_rows::keep(row.summary), row.make};
  additions_.emplace_back([table, kept] { add_row(table(), kept); });
}

void Plugin::head(const HeadRow& row) {
  collect("head", heads, row, row.make != nullptr);
}
void Plugin::model(const ModelRow& row) {
  collect("model", models, row, row.make != nullptr);
}
void Plugin::layer(const LayerRow& row) {
  collect("layer", layer_types, row, row.make.configure != nullptr);
}
void Plugin::loss(const LossRow& row) {
  collect("loss", losses, row, row.make != nullptr);
}
void Plugin::data_set(const DataSetRow& row) {
  collect("data set", data_sets, row, row.make != nullptr);
}
void Plugin::optimizer(const OptimizerRow& row) {
  collect("optimizer", optimizers, row, row.make != nullptr);
}
void Plugin::transform(const ChosenTransformRow& row) {
  collect("transform", chosen_transforms, row, row.make.read != nullptr);
}
void Plugin::correction(const CorrectionRow& row) {
  collect("correction", corrections, row, row.make != nullptr);
}
void Plugin::policy(const PolicyRow& row) {
  collect("policy", policies, row, row.make.configure != nullptr);
}
void Plugin::predictor(const PredictorRow& row) {
  collect("predictor", predictors, row,
          row.make.synthesizer != nullptr || row.make.input_model != nullptr);
}
void Plugin::weight_view(const WeightViewRow& row) {
  collect("weight view", weight_views, row, row.make.make != nullptr);
}
void Plugin::replica_policy(const ReplicaPolicyRow& row) {
  collect("replica policy", replica_policies, row, row.make != nullptr);
}
void Plugin::codec(const CodecRow& row) {
  collect("codec", codecs, row,
          row.make.plain != nullptr || row.make.configure != nullptr);
}
void Plugin::schedule(const ScheduleRow& row) {
  collect("schedule", schedule_rows, row, row.make != nullptr);
}

void Plugin::add_to_tables() {
  for (const auto& add : additions_) add();
  additions_.clear();
}

}  // namespace sluice
