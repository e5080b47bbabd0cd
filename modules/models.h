#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/blocks/layer.h"

namespace sluice {

/// Throws UserError for an input that the model can't take.
using MakeModel = std::function<Model(const SampleSpec& sample)>;
/// Reads the model's options, eagerly.
using ConfigureModel = MakeModel (*)(Fields& options);
using ModelRow = Row<ConfigureModel>;

/// A new model is one function and one row.
std::span<const ModelRow> models();

/// The model of that row, for code without a config: `options` holds what would
/// stand in [model] beside the name. Throws UserError as a config would.
///
/// A list of layers runs in a loop of one's own, without blocks or policies:
///
///   const Model model = make_model("resnet20", {{3, 32, 32}, 10});
///   const auto last = std::ssize(model.layers) - 1;
///   Block net = make_block(model, 1, 0, last, seed, format);
///   Tensors outputs = net.forward({images}, {.seed = seed, .batch = t});
///
/// outputs[0] are the logits: [N, classes], of a text [N, T, classes].
///
/// net.parameters() has the names that checkpoints use ("layers.1.conv1.weight"
/// for the first residual block of a resnet, "layers.0.token.weight" for the
/// embedding of gpt). Layers have one input and one output each, except those
/// of a tied gpt, whose outputs but the last are (h, token weight).
Model make_model(std::string_view name, const SampleSpec& sample,
                 const ConfigNode& options = {});

}  // namespace sluice
