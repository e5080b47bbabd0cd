#include "experiments/config/manual/catalog.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "auxiliary_heads/heads.h"
#include "experiments/config/experiment.h"
#include "experiments/config/reading/codecs.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/config/timetable.h"
#include "experiments/data/data_sets.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/table.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/orders/rows.h"
#include "lib/updates/corrections.h"
#include "lib/updates/learning_rate.h"
#include "lib/updates/optimizer.h"
#include "lib/weights/weight_view.h"
#include "modules/models.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

/// A row of `rows` whose keys stand in the table of the key that names it.
template <class Make, class DescribeRow>
ListedTable keyed_table(std::string kind, std::string what, std::string key,
                        std::span<const Row<Make>> rows, DescribeRow describe) {
  ListedTable table = {std::move(kind), std::move(what), std::move(key), {}};
  const std::string path = table.key.substr(0, table.key.rfind('.'));
  for (const Row<Make>& row : rows)
    table.rows.push_back(
        {std::string(row.name), std::string(row.summary),
         keys_below(path, saying(table.key, row.name),
                    [&](Fields& fields) { describe(row, fields); })});
  return table;
}

/// A table whose rows have no keys.
template <class Make>
ListedTable plain_table(std::string kind, std::string what, std::string key,
                        std::span<const Row<Make>> rows) {
  ListedTable table = {std::move(kind), std::move(what), std::move(key), {}};
  for (const Row<Make>& row : rows)
    table.rows.push_back({std::string(row.name), std::string(row.summary), {}});
  return table;
}

void describe_optimizer(const OptimizerRow& row, Fields& fields) {
  OptimizerOptions options;
  row.make(fields, options);
}

void describe_correction_row(const CorrectionRow& row, Fields& fields) {
  OptimizerOptions with_velocity{.momentum = 0.9};
  row.make(fields, with_velocity);
}

void describe_policy(const PolicyRow& row, Fields& fields) {
  row.make.configure(fields, plug_ins());
}

void describe_rate(Fields& fields) {
  LearningRate().describe(fields);
}

/// The table of schedules, each with the keys that it has beside the common
/// ones.
ListedTable schedules_table() {
  const std::string path = "optimizer";
  const std::string key = "optimizer.schedule.name";
  const std::vector<KeyDoc> plain =
      manual_with({.value = ConfigNode::Table{}}, path, describe_rate);
  ListedTable table = {"schedules", "schedule of the learning rate", key, {}};
  for (const RateScheduleRow& row : rate_schedules()) {
    ListedRow listed = {std::string(row.name), std::string(row.summary), {}};
    const ConfigNode chosen =
        table_saying("schedule.name", std::string(row.name));
    for (const KeyDoc& doc : manual_with(chosen, path, describe_rate))
      if (!has_path(plain, doc.path))
        listed.keys.push_back({doc, {saying(key, row.name)}});
    table.rows.push_back(std::move(listed));
  }
  return table;
}

/// A predictor as a row: the keys of a boundary with synthetic gradients below
/// `section`, all of whose tables are there.
ListedRow predictor_row(const char* name, const char* summary,
                        const std::string& section) {
  const PolicyRow& policy =
      find_row(policies(), "synthetic_gradient", "policy");
  ConfigNode boundary = {.value = ConfigNode::Table{}};
  boundary.set_path(section + ".optimizer", {.value = ConfigNode::Table{}});
  ListedRow row = {name, summary, {}};
  const std::string below = "boundary." + section + ".";
  const std::string with = saying("boundary.policy", policy.name);
  for (const KeyDoc& doc :
       manual_with(boundary, "boundary",
                   [&](Fields& fields) { describe_policy(policy, fields); }))
    if (doc.path.starts_with(below)) row.keys.push_back({doc, {with}});
  return row;
}

/// The table of codecs: one with options is a table in the place of its name.
ListedTable codecs_table() {
  const std::string key = "boundary.codec";
  const std::string name = key + ".name";
  ListedTable table = {"codecs", "codec", key, {}};
  for (const CodecRow& row : codecs()) {
    ListedRow listed = {std::string(row.name), std::string(row.summary), {}};
    if (row.make.configure != nullptr)
      for (const KeyDoc& doc :
           manual_with({.value = ConfigNode::Table{}}, key,
                       [&](Fields& fields) { row.make.configure(fields, {}); }))
        listed.keys.push_back({doc, {saying(name, row.name)}});
    table.rows.push_back(std::move(listed));
  }
  return table;
}

/// Predictors are one family: their place in a config says whether one is a
/// synthesizer or an input model.
ListedTable predictors_table() {
  return {
      "predictors",
      "predictor",
      "",
      {predictor_row("synthesizer", "predicts the gradient at a block's output",
                     "synthesizer"),
       predictor_row("input_model", "predicts a block's input, for an unlock",
                     "unlock")}};
}

/// How blocks in lockstep order their batches; "free" is a key of its own.
ListedTable orders_table() {
  ListedTable table = plain_table("orders", "order of a pipeline",
                                  "pipeline.order", schedule_rows());
  std::erase_if(table.rows,
                [](const ListedRow& row) { return row.name == "free"; });
  return table;
}

ListedTable transports_table() {
  ListedTable table =
      plain_table("transports", "transport", "transport", transports());
  table.rows.push_back({std::string(kAutoTransport),
                        "shared_memory within a host, tls between hosts, each "
                        "link its own",
                        {}});
  return table;
}

}  // namespace

std::vector<ListedTable> listed_tables() {
  const auto make = [](const auto& row, Fields& fields) { row.make(fields); };
  return {
      keyed_table("methods", "method", "boundary.policy", policies(),
                  describe_policy),
      keyed_table("heads", "auxiliary head", "boundary.head.name", heads(),
                  make),
      predictors_table(),
      keyed_table("models", "model", "model.name", models(), make),
      keyed_table("datasets", "data set", "data.name", data_sets(), make),
      keyed_table("losses", "loss", "loss.name", losses(), make),
      keyed_table("optimizers", "optimizer", "optimizer.name", optimizers(),
                  describe_optimizer),
      schedules_table(),
      keyed_table("corrections", "correction", "optimizer.correction.name",
                  corrections(), describe_correction_row),
      plain_table("weights", "view of a delayed batch's weights",
                  "boundary.weights", weight_views()),
      codecs_table(),
      keyed_table("replicas", "replica policy", "replicas.policy",
                  replica_policies(), make),
      keyed_table("compressors", "compressor of the replicas' gradients",
                  "replicas.compress", compressors(), make),
      orders_table(),
      transports_table(),
  };
}

const ListedTable* find_table(std::span<const ListedTable> tables,
                              std::string_view kind) {
  for (const ListedTable& table : tables)
    if (table.kind == kind) return &table;
  return nullptr;
}

const ListedRow& find_listed(const ListedTable& table, std::string_view name) {
  std::vector<std::string> names;
  for (const ListedRow& row : table.rows) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw UserError("unknown {} '{}'{}; there are: {}", table.what, name,
                  perhaps(name, names), joined(names));
}

std::vector<KnownKey> known_keys() {
  const std::vector<ListedTable> tables = listed_tables();
  const auto is_of_a_row = [&](const std::string& path) {
    for (const ListedTable& table : tables)
      for (const ListedRow& row : table.rows)
        if (has_path(row.keys, path)) return true;
    return false;
  };
  std::vector<KnownKey> known;
  const KeyDoc of_codec = {
      .path = "boundary.codec.name",
      .type = "string",
      .default_value = toml_string("none"),
      .text =
          "the codec, where boundary.codec is a table with its options: "
          "codec = {name = \"top_k\", ratio = 0.1}; or one of each "
          "direction, {up = \"top_k\", down = {name = \"int8\"}}",
      .choices = names_of(codecs())};
  const Experiment defaults =
      read_experiment({.value = ConfigNode::Table{}}, "");
  for (const KeyDoc& doc : defaults.manual)
    if (!is_of_a_row(doc.path)) add_key({doc, {}}, known);
  add_key({of_codec, {}}, known);
  BoundaryCodecs any;
  for (const KeyDoc& doc : manual_with(
           {.value = ConfigNode::Table{}}, "boundary.codec",
           [&](Fields& fields) { describe_common_options(fields, {}, any); }))
    add_key({doc, {}}, known);
  for (const ListedTable& table : tables)
    for (const ListedRow& row : table.rows)
      for (const KnownKey& key : row.keys) add_key(key, known);
  return known;
}

std::vector<KeyDoc> docs_of(std::span<const KnownKey> keys) {
  std::vector<KeyDoc> docs;
  for (const KnownKey& key : keys) {
    docs.push_back(key.doc);
    if (!key.with.empty())
      docs.back().text +=
          fmt::format(" [with {}]", fmt::join(key.with, " or "));
  }
  return docs;
}

}  // namespace sluice
