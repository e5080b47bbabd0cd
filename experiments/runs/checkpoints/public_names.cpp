#include "experiments/runs/checkpoints/public_names.h"

#include <algorithm>
#include <optional>
#include <variant>

#include <ATen/ops/zeros.h>
#include <fmt/args.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/table.h"
#include "lib/checkpoints/checkpoint.h"
#include "sluice_weight_names.h"

namespace sluice {
namespace {

PublicName read_name(const ConfigNode& node) {
  if (const auto* text = std::get_if<std::string>(&node.value)) return {*text};
  PublicName name;
  Fields fields(&node, "names");
  fields.key("name", name.name, {});
  fields.key("or", name.otherwise, {});
  fields.key("transposed", name.transposed, {});
  fields.key("leading_one", name.leading_one, {});
  fields.key("first_rows", name.first_rows, {});
  fields.key("or_zero", name.or_zero, {});
  fields.finish();
  return name;
}

NameTable read_table(const WeightNamesFile& file) {
  const ConfigNode root = parse_toml(file.text, std::string(file.name));
  NameTable table{.name = std::string(file.name)};
  Fields fields(&root, "");
  fields.key("models", table.models, {});
  fields.key("prefixes", table.prefixes, {});
  fields.section("stages", "", [&](Fields& stages) {
    for (const std::string& model : stages.written())
      stages.key(model, table.stages[model], {});
  });
  fields.section("names", "", [&](Fields& names) {
    for (const std::string& ours : names.written()) {
      ConfigNode node;
      names.key(ours, node, "", {});
      table.names.emplace_back(ours, read_name(node));
    }
  });
  fields.finish();
  return table;
}

/// Place of a layer among those of its model.
struct LayerPlace {
  std::int64_t layer = 0;
  std::int64_t last = 0;
  std::int64_t stage = 0;
  std::int64_t block = 0;
};

LayerPlace place_of(std::int64_t layer, const NamedModel& model,
                    const std::vector<std::int64_t>& stages) {
  LayerPlace place{layer, model.layers - 1, 1, layer - 1};
  for (const std::int64_t blocks : stages) {
    if (place.block < blocks) break;
    place.block -= blocks;
    ++place.stage;
  }
  return place;
}

std::string filled(const std::string& pattern, const LayerPlace& place) {
  return fmt::format(
      fmt::runtime(pattern), fmt::arg("layer", place.layer),
      fmt::arg("n", place.layer - 1), fmt::arg("last", place.last),
      fmt::arg("stage", place.stage), fmt::arg("block", place.block));
}

PublicName filled(const PublicName& name, const LayerPlace& place) {
  PublicName one = name;
  one.name = filled(name.name, place);
  one.otherwise = filled(name.otherwise, place);
  return one;
}

using TensorsByName = std::map<std::string_view, const at::Tensor*>;

TensorsByName by_name(const NamedTensors& tensors) {
  TensorsByName found;
  for (const auto& [name, tensor] : tensors) found[name] = &tensor;
  return found;
}

const at::Tensor* find(const TensorsByName& tensors, const NameTable& table,
                       const PublicName& wanted) {
  for (const std::string& name : {wanted.name, wanted.otherwise}) {
    if (name.empty()) continue;
    for (const std::string& prefix : table.prefixes)
      if (const auto found = tensors.find(prefix + name);
          found != tensors.end())
        return found->second;
  }
  return nullptr;
}

at::Tensor as_ours(at::Tensor tensor, const PublicName& name,
                   const NamedModel& model) {
  if (name.leading_one && tensor.dim() > 0 && tensor.size(0) == 1)
    tensor = tensor.squeeze(0);
  if (name.transposed && tensor.dim() == 2) tensor = tensor.t();
  if (name.first_rows && tensor.dim() > 0 && tensor.size(0) > model.context)
    tensor = tensor.narrow(0, 0, model.context);
  return tensor;
}

at::Tensor as_theirs(at::Tensor tensor, const PublicName& name) {
  if (name.transposed) tensor = tensor.t();
  if (name.leading_one) tensor = tensor.unsqueeze(0);
  return tensor.contiguous();
}

std::vector<const NameTable*> tables_for(std::string_view model) {
  std::vector<const NameTable*> tables;
  for (const NameTable& table : name_tables())
    if (std::find(table.models.begin(), table.models.end(), model) !=
        table.models.end())
      tables.push_back(&table);
  return tables;
}

/// What tells the table's files from others: a name that all have.
bool is_named_by(const NameTable& table, const NamedModel& model,
                 const TensorsByName& theirs) {
  const auto names = names_in(table, model);
  return !names.empty() && find(theirs, table, names.front().second) != nullptr;
}

std::string first_names(const NamedTensors& tensors) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (const auto& [name, tensor] : tensors)
    if (shown.size() < kShown) shown.push_back("'" + name + "'");
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     tensors.size() > kShown ? ", ..." : "");
}

}  // namespace

std::span<const NameTable> name_tables() {
  static const std::vector<NameTable> tables = [] {
    std::vector<NameTable> all;
    all.reserve(kWeightNames.size());
    for (const WeightNamesFile& file : kWeightNames)
      all.push_back(read_table(file));
    return all;
  }();
  return tables;
}

std::vector<std::pair<std::string, PublicName>> names_in(
    const NameTable& table, const NamedModel& model) {
  const auto stages = table.stages.find(model.name);
  const std::vector<std::int64_t> blocks = stages == table.stages.end()
                                               ? std::vector<std::int64_t>{}
                                               : stages->second;
  std::vector<std::pair<std::string, PublicName>> all;
  for (const auto& [ours, name] : table.names) {
    const bool is_of_each = ours.find("{layer}") != std::string::npos;
    const std::int64_t end = is_of_each ? model.layers - 1 : 2;
    for (std::int64_t layer = 1; layer < end; ++layer) {
      const LayerPlace place = place_of(layer, model, blocks);
      all.emplace_back(filled(ours, place), filled(name, place));
    }
  }
  return all;
}

NamedTensors with_our_names(const NameTable& table, const NamedModel& model,
                            const NamedTensors& theirs) {
  const TensorsByName found = by_name(theirs);
  NamedTensors ours;
  for (const auto& [own, name] : names_in(table, model)) {
    const at::Tensor* tensor = find(found, table, name);
    if (tensor != nullptr)
      ours.emplace_back(own, as_ours(*tensor, name, model));
    else if (name.or_zero)
      ours.emplace_back(own, at::zeros({}, at::kLong));
  }
  return ours;
}

NamedTensors with_public_names(const NameTable& table, const NamedModel& model,
                               const NamedTensors& ours) {
  const auto names = names_in(table, model);
  NamedTensors theirs;
  for (const auto& [own, tensor] : ours) {
    const auto found = std::find_if(
        names.begin(), names.end(),
        [&name = own](const auto& each) { return each.first == name; });
    if (found == names.end())
      throw UserError("tensor '{}' has no name in {}", own, table.name);
    theirs.emplace_back(found->second.name, as_theirs(tensor, found->second));
  }
  return theirs;
}

NamedModel named_model_of(const Experiment& experiment) {
  const Model& model = experiment.model;
  const ConfigNode* table = experiment.resolved.find("model");
  const ConfigNode* name = table == nullptr ? nullptr : table->find("name");
  const auto* text =
      name == nullptr ? nullptr : std::get_if<std::string>(&name->value);
  return {.name = text == nullptr ? "" : *text,
          .layers = std::ssize(model.layers),
          .context = model.sample.shape.empty() ? 0 : model.sample.shape[0]};
}

FoundWeights find_weights(const Experiment& experiment,
                          const std::string& path) {
  NamedTensors found = load_weights(path);
  const bool has_ours = std::any_of(
      found.begin(), found.end(),
      [](const auto& named) { return named.first.starts_with("layers."); });
  const NamedModel model = named_model_of(experiment);
  const std::vector<const NameTable*> tables = tables_for(model.name);
  if (has_ours || tables.empty()) return {std::move(found), path};
  std::vector<std::string> known;
  for (const NameTable* table : tables) {
    if (is_named_by(*table, model, by_name(found)))
      return {with_our_names(*table, model, found),
              fmt::format("{}, by the names of {}", path, table->name)};
    known.push_back(fmt::format("{} ('{}')", table->name,
                                names_in(*table, model).front().second.name));
  }
  throw UserError(
      "{}: has tensors {}, which are neither Sluice's names ('layers.0. ...') "
      "nor those that a {} has in {}: rename them",
      path, first_names(found), model.name, fmt::join(known, " or "));
}

const NameTable& find_names(std::string_view name, std::string_view model) {
  std::vector<std::string> names;
  for (const NameTable* table : tables_for(model)) {
    if (table->name == name) return *table;
    names.push_back(table->name);
  }
  if (names.empty())
    throw UserError(
        "--names {}: no public names are known for the model '{}'; without "
        "--names the file has Sluice's",
        name, model);
  throw UserError("--names {}: a {} has the names {}", name, model,
                  joined(names));
}

}  // namespace sluice
