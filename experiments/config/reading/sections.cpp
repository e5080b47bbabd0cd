#include "experiments/config/reading/sections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/config/left_out.h"
#include "experiments/config/per_block_tables.h"
#include "experiments/config/reading/codecs.h"
#include "experiments/config/rules/on_device.h"
#include "experiments/config/rules/plan_rules.h"
#include "experiments/config/rules/replica_counts.h"
#include "experiments/config/rules/target_rules.h"
#include "experiments/config/tables/block_devices.h"
#include "experiments/data/change/label_noise.h"
#include "experiments/data/change/mixup.h"
#include "experiments/data/change/teacher.h"
#include "experiments/data/data_sets.h"
#include "experiments/data/order/echo.h"
#include "experiments/data/order/limits.h"
#include "experiments/data/order/training_part.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/plug_in.h"
#include "lib/base/random.h"
#include "lib/base/table.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/downsample.h"
#include "lib/updates/optimizer.h"
#include "modules/models.h"
#include "modules/partition.h"

namespace sluice {
namespace {

/// Refuses a config whose layers are those of another program.
void refuse_layers_of_others(const Fields& fields, const std::string& name) {
  const std::vector<std::string> known = names_of(models());
  if (name == kOwnModel &&
      std::find(known.begin(), known.end(), name) == known.end())
    fields.reject("name",
                  "'own' are the layers of the program that run.json names: "
                  "give this command to it, instead of to sluice");
}

void append(const std::vector<std::string>& lines,
            std::vector<std::string>& all) {
  all.insert(all.end(), lines.begin(), lines.end());
}

/// Reads the table of one block or boundary; `table` is what `fields` reads.
using DescribeOne = void (*)(Fields& fields, const ConfigNode& table,
                             Experiment&);

void describe_numbered(Fields& fields, const ConfigNode& tables,
                       std::int64_t number, DescribeOne describe_one,
                       Experiment& experiment) {
  const std::string name = std::to_string(number);
  fields.section(name, "", [&](Fields& part) {
    describe_one(part, *tables.find(name), experiment);
  });
}

/// A common key of a later layer holds for the blocks whose policy or rule has
/// it. Leaves it out of the others' tables, unless none has it.
void fit_common_keys(const ConfigNode* table, std::string_view path,
                     std::int64_t count, const Experiment& experiment,
                     DescribeOne describe_one, ConfigNode& tables) {
  const auto* written = std::get_if<ConfigNode::Table>(&table->value);
  if (written == nullptr || table->layer() == 0 ||
      std::none_of(written->begin(), written->end(), [](const auto& entry) {
        return names_one_block(entry.first);
      }))
    return;
  Experiment tried = experiment;
  std::map<std::string, std::int64_t> left_out;  // by "momentum"
  ConfigNode fitted = tables;
  for (std::int64_t number = 1; number <= count; ++number) {
    Experiment next = tried;
    try {
      Fields fields(&fitted, std::string(path));
      describe_numbered(fields, fitted, number, describe_one, next);
      tried = std::move(next);
    } catch (const UnknownKey& error) {
      if (!leave_out_common(error.path(), table, path, number, count, fitted))
        return;  // reading it will tell
      const std::size_t begin = path.size() + std::to_string(number).size() + 2;
      if (++left_out[error.path().substr(begin)] == count) return;
      --number;  // it may have more of them
    } catch (const UserError&) {
      return;
    }
  }
  tables = std::move(fitted);
}

/// The config says `[boundary]` for all and `[boundary.2]` for one; how many
/// there are is known only when the model has been cut. So `path` is taken from
/// the top as it is written, made explicit, and read on its own.
void read_numbered(Fields& top, std::string_view path, std::int64_t count,
                   const NumberedKeys& keys, Experiment& experiment,
                   DescribeOne describe_one) {
  ConfigNode written;
  top.key(path, written, "table",
          {.text = "keys for all, or in a numbered table for one; the last one "
                   "is also called `last`"});
  const ConfigNode* table = written.value.index() == 0 ? nullptr : &written;
  auto [tables, ignored] = per_block_tables(table, count, keys, path);
  append(ignored, experiment.left_out);
  if (table != nullptr)
    fit_common_keys(table, path, count, experiment, describe_one, tables);
  Fields fields(&tables, std::string(path));
  std::vector<DroppedKey> dropped;
  const auto written_as = [&](const std::string& text, std::int64_t number) {
    return as_written(text, table, path, number, count);
  };
  for (std::int64_t number = 1; number <= count; ++number) {
    try {
      describe_numbered(fields, tables, number, describe_one, experiment);
    } catch (const UnknownKey& error) {
      throw UnknownKey(written_as(error.place(), number), error.hint(),
                       error.rest(), error.path());
    } catch (const UserError& error) {
      throw UserError("{}", written_as(error.what(), number));
    }
    for (const DroppedKey& key :
         std::span(fields.dropped()).subspan(dropped.size()))
      dropped.push_back({written_as(key.path, number), key.place,
                         written_as(key.by, number)});
  }
  fields.finish();
  append(lines_of(dropped), experiment.left_out);
  if (count == 0) {  // no boundary: what holds for all is checked all the same
    Experiment unused = experiment;
    const ConfigNode one = per_block_tables(table, 1, keys, path).tables;
    Fields check(&one, std::string(path));
    describe_numbered(check, one, 1, describe_one, unused);
  }
  experiment.resolved.set(path, fields.resolved());
  // The manual describes number 1 in the form that holds for all.
  const std::string first = std::string(path) + ".1.";
  for (KeyDoc key : fields.manual()) {
    if (!key.path.starts_with(first)) continue;
    key.path.erase(path.size(), 2);
    experiment.manual.push_back(std::move(key));
  }
}

/// Checks the codec of the boundary that is read next.
void check_downsampling(const Fields& fields, const Experiment& experiment) {
  const auto boundary = static_cast<int>(experiment.codecs.size()) + 1;
  if (boundary >= experiment.blocks()) return;
  const auto layer =
      static_cast<std::size_t>(by_block(experiment.ranges, boundary).last);
  const SampleShape& shape = experiment.model.layers.at(layer).output;
  if (!can_downsample(shape))
    fields.reject("codec",
                  fmt::format("'{}' averages the pixels of maps [C, H, W], and "
                              "the features at boundary {} are [{}]: set codec "
                              "= 'none' there, or another",
                              kDownsample, boundary, fmt::join(shape, ", ")));
}

void read_boundary(Fields& fields, const ConfigNode& table,
                   Experiment& experiment) {
  const BoundaryCodecs read = read_codecs(fields, table.find("codec"));
  for (const auto& codec : {read.up, read.down})
    if (codec && codec->name() == kDownsample)
      check_downsampling(fields, experiment);
  experiment.codecs.push_back(read);
  experiment.phases.front().push_back(read_policy(fields, experiment.policies));
}

void read_optimizer(Fields& fields, const ConfigNode& /*table*/,
                    Experiment& experiment) {
  OptimizerOptions options;
  options.last_layer =
      fmt::format("layers.{}.", experiment.model.layers.size() - 1);
  options.describe(fields);
  experiment.optimizers.push_back(std::move(options));
}

/// Table of the boundary above block k in the resolved config, without its
/// codec, which no timetable changes.
ConfigNode policy_config(const Experiment& experiment, int block) {
  ConfigNode config =
      *experiment.resolved.find("boundary")->find(std::to_string(block));
  std::erase_if(std::get<ConfigNode::Table>(config.value),
                [](const auto& item) { return item.first == "codec"; });
  return config;
}

/// Adds the layers that codecs put at the cuts to the model; not to a network
/// of one's own, which is refused.
void add_cut_layers(Experiment& experiment) {
  if (!experiment.data) return;
  for (int k = 1; k < experiment.blocks(); ++k) {
    const BoundaryCodecs codecs = codecs_above(experiment, k);
    if (!codecs.add_layers) continue;
    const auto layer =
        static_cast<std::size_t>(by_block(experiment.ranges, k).last);
    std::vector<LayerSpec>& layers = experiment.model.layers;
    const SampleShape before = layers.at(layer).output;
    try {
      codecs.add_layers(
          layers.at(layer), layers.at(layer + 1),
          random_key({experiment.seed, layer, key_part("cut layers")}));
    } catch (const UserError& error) {
      throw UserError("boundary {}: {}", k, error.what());
    }
    // With all channels sent there are no such layers.
    if (layers.at(layer).output == before)
      by_block(experiment.codecs, k).add_layers = nullptr;
  }
}

/// The layer that has changed the number of blocks; 0: none has.
int layer_of_cut(const ConfigNode& cut) {
  const bool is_default = cut == Settings().cut;
  return cut.origin.replaces || !is_default ? cut.origin.layer : 0;
}

}  // namespace

void read_data(Fields& top, const std::string& data_root,
               Experiment& experiment) {
  top.section("data", "the data set", [&](Fields& fields) {
    std::string root = data_root;
    std::string name = "drawn_digits";
    const MakeDataSet make =
        choose(fields, "name", data_sets(), name, "data set").make(fields);
    fields.key("root", root,
               {.text = "folder of the data files; default: the environment "
                        "variable SLUICE_DATA"});
    fields.key("prefetch", experiment.prefetch,
               {.text = "batches that a separate thread prepares ahead while "
                        "the model computes; 0: none",
                .unit = "batches",
                .min = 0,
                .max = 1024});
    describe_on_device(fields);
    LabelNoise noise;
    noise.describe(fields);
    Mixup mixup;
    mixup.describe(fields);
    Teacher teacher;
    teacher.describe(fields);
    TrainingPart part;
    part.describe(fields);
    experiment.assist.describe(fields);
    Echo echo;
    echo.describe(fields);
    // The training part is one of what is trained on.
    const DataSet trained = with_limits(with_label_noise(make(root), noise),
                                        {.train = experiment.limit.train});
    experiment.data = std::make_shared<const DataSet>(with_limits(
        with_training_part(with_teacher(with_mixup(trained, mixup), teacher),
                           part),
        {.evaluation = experiment.limit.evaluation}));
  });
}

void read_model(Fields& top, Experiment& experiment) {
  top.section("model", "the network", [&](Fields& fields) {
    std::string name = "mlp";
    try {
      experiment.model = choose(fields, "name", models(), name, "model")
                             .make(fields)(experiment.data->sample);
    } catch (const UserError&) {
      refuse_layers_of_others(fields, name);
      throw;
    }
  });
  if (experiment.model.draw) experiment.model.draw(experiment.seed);
  fine_tune(experiment.fine_tuning, top, experiment.model);
}

void add_policies(Experiment& experiment) {
  std::vector<PolicyRow>& rows = experiment.policies;
  for (const PolicyRow& row : policies()) {
    for (const PolicyRow& own : rows)
      if (own.name == row.name)
        throw UserError("policy '{}' is built in; give yours another name",
                        own.name);
    rows.push_back(row);
  }
}

Timetable read_rest(Fields& top, Experiment& experiment) {
  std::string loss = "cross_entropy";
  top.section("loss", "at the last block, and of heads that classify",
              [&](Fields& fields) {
                experiment.loss =
                    choose(fields, "name", losses(), loss, "loss").make(fields);
              });
  check_targets(experiment, loss, top);
  experiment.ranges = partition(experiment.cut, experiment.model);
  const int recut_in = layer_of_cut(experiment.cut);
  experiment.phases.emplace_back();
  read_numbered(top, "boundary", experiment.blocks() - 1,
                {.fresh = "policy", .shared = "codec", .recut_in = recut_in},
                experiment, read_boundary);
  add_cut_layers(experiment);
  read_numbered(top, "optimizer", experiment.blocks(),
                {.fresh = "name", .recut_in = recut_in}, experiment,
                read_optimizer);
  for (int k = 1; k < experiment.blocks(); ++k)
    experiment.phases.front()[static_cast<std::size_t>(k) - 1].config =
        policy_config(experiment, k);
  Timetable timetable = read_timetable(
      top, {std::move(experiment.phases.front()), experiment.accumulate},
      experiment.policies, recut_in);
  experiment.phases = timetable.phases;
  experiment.accumulate_by_phase = timetable.accumulate;
  top.finish();
  append(timetable.ignored, experiment.left_out);
  append(lines_of(timetable.dropped), experiment.left_out);
  append(lines_of(top.dropped()), experiment.left_out);
  check_policies(experiment, top);
  derive_counts(top, experiment);
  derive_for_blocks(top, experiment);
  return timetable;
}

}  // namespace sluice
