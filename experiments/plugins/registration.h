#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auxiliary_heads/predictors/predictors.h"
#include "experiments/data/samples/data_set.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/head.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/orders/rows.h"
#include "lib/updates/chosen_transforms.h"
#include "lib/updates/corrections.h"
#include "lib/updates/optimizer.h"
#include "lib/updates/transform.h"
#include "lib/weights/weight_view.h"
#include "modules/layer_types.h"
#include "modules/models.h"

namespace sluice {

/// What a plug-in adds: rows of the tables that the built-in parts are in, to
/// be named in configs like these. Each function takes the row, {name, one line
/// for `sluice list`, what makes it}; names and summaries are copied. A row
/// whose name is taken, has other characters than letters, digits, - and _, or
/// that makes nothing, is a UserError. Used by one thread; nothing is in a
/// table before add_to_tables().
class Plugin {
 public:
  void head(const HeadRow& row);
  void model(const ModelRow& row);
  /// A type of layer: [[model.layer]] of the model `layers` names it.
  void layer(const LayerRow& row);
  void loss(const LossRow& row);
  void data_set(const DataSetRow& row);
  void optimizer(const OptimizerRow& row);
  /// A link of the update before the optimizer: [[optimizer.transform]] names
  /// it.
  void transform(const ChosenTransformRow& row);
  /// A link that knows the staleness; one at most: optimizer.correction.
  void correction(const CorrectionRow& row);
  /// A policy of boundaries. Its page may be nullptr.
  void policy(const PolicyRow& row);
  /// A synthesizer, an input model, or both: boundary.synthesizer.name and
  /// boundary.unlock.name name it.
  void predictor(const PredictorRow& row);
  void weight_view(const WeightViewRow& row);
  void replica_policy(const ReplicaPolicyRow& row);
  void codec(const CodecRow& row);
  /// An order of pipelines: pipeline.order names it.
  void schedule(const ScheduleRow& row);

  /// Adds all of it to the tables of this process, for good. Called once, by
  /// the program (or by a test) when the plug-in has registered everything.
  void add_to_tables();

 private:
  template <class Make>
  void collect(std::string_view kind, std::span<const Row<Make>> (*table)(),
               const Row<Make>& row, bool makes);

  std::vector<std::string> names_;  // "head 'mine'"
  std::vector<std::function<void()>> additions_;
};

}  // namespace sluice
