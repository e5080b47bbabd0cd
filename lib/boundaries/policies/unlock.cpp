#include "lib/boundaries/policies/unlock.h"

#include <utility>

#include "lib/boundaries/policies/attached.h"

namespace sluice {

std::optional<OptimizerOptions> read_own_optimizer(Fields& options) {
  constexpr const char* kText =
      "its own, as [optimizer], with the defaults there for what it leaves "
      "out; without it, the block's";
  if (!options.has("optimizer")) {
    // Described, but left out of the resolved config.
    ConfigNode none;
    options.key("optimizer", none, "table", {.text = kText});
    return std::nullopt;
  }
  OptimizerOptions own;
  options.section("optimizer", kText, [&](Fields& part) {
    own.describe(part);
    if (own.clip_scope == ClipScope::model)
      part.reject("clip", "its scope can only be 'block' here");
  });
  return own;
}

MakeUnlock read_unlock(Fields& options, const PlugIns& plug_ins) {
  if (!options.has("unlock")) {
    ConfigNode none;
    options.key("unlock", none, "table",
                {.text = "full unlock: the block above trains on what an input "
                         "model predicts of the features that it would get, "
                         "from the data, and waits for no block below; "
                         "{hidden, width, label, optimizer} as of a "
                         "synthesizer"});
    return nullptr;
  }
  MakeInputModel make;
  std::optional<OptimizerOptions> optimizer;
  options.section("unlock", "what predicts the input of the block above",
                  [&](Fields& fields) {
                    if (plug_ins.input_model == nullptr)
                      options.reject("unlock", "there are no input models");
                    make = plug_ins.input_model(fields);
                    optimizer = read_own_optimizer(fields);
                  });
  return [=](const Site& site) {
    auto unlock = std::make_shared<Unlock>();
    unlock->model = make(site);
    const Attached attached(*unlock->model, "input_models", site.layer);
    unlock->parameters = attached.parameters;
    unlock->buffers = attached.buffers;
    unlock->optimizer = optimizer;
    return unlock;
  };
}

}  // namespace sluice
