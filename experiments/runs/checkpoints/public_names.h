#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Name of a tensor in another program's files, and how it lies there.
struct PublicName {
  std::string name = {};
  std::string otherwise = {};  ///< where no tensor has that name
  bool transposed = false;
  bool leading_one = false;  ///< [1, ...] there, [...] here
  bool first_rows = false;   ///< rows beyond the context are left out
  bool or_zero = false;      ///< may be missing: a count of 0
};

/// Names that another program gives to the weights of a kind of model: a file
/// in experiments/weight_names, whose place in `names` says what is here.
/// "{layer}" stands for the number of each layer but the first and the last,
/// from 1, "{n}" for it from 0, "{last}" for the last one's. "{stage}" and
/// "{block}" are those of a residual block, from 1 and from 0.
struct NameTable {
  std::string name = {};
  std::vector<std::string> models = {};
  std::vector<std::string> prefixes = {};  ///< that any name may have in a file
  /// Residual blocks of each stage, by model.
  std::map<std::string, std::vector<std::int64_t>> stages = {};
  std::vector<std::pair<std::string, PublicName>> names = {};  ///< by ours
};

std::span<const NameTable> name_tables();

/// What names depend on.
struct NamedModel {
  std::string name;          ///< in [model]
  std::int64_t layers = 0;   ///< in its list
  std::int64_t context = 0;  ///< most rows of tensors with first_rows
};

/// Our names, with those of the table, for each layer of the model that the
/// table has; the model may have fewer tensors.
std::vector<std::pair<std::string, PublicName>> names_in(
    const NameTable& table, const NamedModel& model);

/// The tensors of another program's file, as they are here. Others are left
/// out, and so is what the file doesn't have.
NamedTensors with_our_names(const NameTable& table, const NamedModel& model,
                            const NamedTensors& theirs);
/// The inverse. Throws UserError for a tensor that has no name there.
NamedTensors with_public_names(const NameTable& table, const NamedModel& model,
                               const NamedTensors& ours);

NamedModel named_model_of(const Experiment& experiment);

/// Weights from anywhere, and what to call them in messages.
struct FoundWeights {
  NamedTensors tensors;
  std::string source;
};
/// Weights for the experiment's model: of a checkpoint, or of a safetensors
/// file, a folder of shards or their index, with our names or those of a table
/// for that model. Throws UserError where the names are neither.
FoundWeights find_weights(const Experiment& experiment,
                          const std::string& path);

/// The table of that name. Throws UserError where there is none, or it is for
/// other models.
const NameTable& find_names(std::string_view name, std::string_view model);

}  // namespace sluice
