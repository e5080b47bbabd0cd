#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/fused_linear.h"
#include "lib/blocks/layer.h"

namespace sluice {

/// Which of the model's weights train: the table [fine_tune].
struct FineTuning {
  std::vector<std::string> train = {};  ///< patterns; empty: see trains()
  std::vector<std::string> freeze = {};
  AdapterOptions adapter = {};
  std::vector<std::string> adapted = {"*"};  ///< patterns of linear layers

  bool is_there() const;
  /// Whether a weight of the model trains: "layers.2.attention.qkv.weight".
  /// Without `train` all do; where there are adapters, these alone.
  bool trains(const std::string& name) const;
  bool adapts(const std::string& layer) const;

  void describe(Fields& fields);
};

/// Lets the model's layers be made with these weights frozen, and with
/// adapters. Throws UserError, about `top`, for a pattern that nothing has.
void fine_tune(const FineTuning& tuning, const Fields& top, Model& model);

}  // namespace sluice
