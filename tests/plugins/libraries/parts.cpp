// A plug-in with a row for each table: built-in rows once more, as "parts_X".
#include <string>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

/// The table's row of that name, under the other one.
template <class Make>
Row<Make> copy_of(std::span<const Row<Make>> rows, const char* name) {
  Row<Make> row = find_row(rows, name, "row");
  static std::string copied;  // what is registered is copied
  copied = std::string("parts_") + name;
  row.name = copied;
  return row;
}

}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.head(copy_of(heads(), "linear"));
  plugin.model(copy_of(models(), "mlp"));
  plugin.loss(copy_of(losses(), "cross_entropy"));
  plugin.data_set(copy_of(data_sets(), "drawn_digits"));
  plugin.optimizer(copy_of(optimizers(), "sgd"));
  plugin.correction(copy_of(corrections(), "dynsgd"));
  plugin.policy(copy_of(policies(), "local_loss"));
  PolicyRow delayed = copy_of(policies(), "delayed_gradient");
  delayed.make.page = nullptr;
  plugin.policy(delayed);
  plugin.weight_view(copy_of(weight_views(), "stash"));
  plugin.replica_policy(copy_of(replica_policies(), "all_reduce"));
  plugin.codec(copy_of(codecs(), "fp16"));
  plugin.schedule(copy_of(schedule_rows(), "gpipe"));
}
