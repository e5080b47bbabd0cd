#include "tests/modules/build.h"

#include <algorithm>

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "lib/tensors/gradients.h"

namespace sluice {

NamedTensors initial_weights(const Model& model, std::uint64_t seed) {
  const Block block = make_block(model, seed);
  return block.parameters();
}

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : initial_weights(model))
    names.push_back(name);
  return names;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : initial_weights(model))
    count += parameter.numel();
  return count;
}

at::Tensor samples(const Model& model, std::int64_t count) {
  SampleShape sizes = {count};
  const SampleSpec& sample = model.sample;
  sizes.insert(sizes.end(), sample.shape.begin(), sample.shape.end());
  const at::Generator generator = Pass{}.generator("samples");
  return sample.is_text
             ? at::randint(sample.classes, sizes, generator, at::kLong)
             : at::randn(sizes, generator);
}

Outcome run_blocks(const Model& model, const std::vector<std::int64_t>& starts,
                   const Pass& pass) {
  std::vector<Block> blocks;
  std::int64_t end = std::ssize(model.layers);
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    blocks.insert(blocks.begin(), make_block(model, 1, *start, end - 1, 1,
                                             MemoryFormat::contiguous));
    end = *start;
  }
  std::vector<Tensors> inputs;
  std::vector<Tensors> outputs;
  Tensors values = {samples(model)};
  for (Block& block : blocks) {
    for (at::Tensor& value : values) {
      value = value.detach().clone();
      value.set_requires_grad(value.is_floating_point());
    }
    inputs.push_back(values);
    values = block.forward(values, pass);
    outputs.push_back(values);
  }
  Outcome outcome = {.outputs = values.at(0).detach(), .gradients = {}};
  Tensors signal = {2 * outcome.outputs};
  for (std::size_t k = blocks.size(); k > 0; --k) {
    const NamedTensors& parameters = blocks[k - 1].parameters();
    NamedTensors targets = parameters;
    for (const at::Tensor& input : inputs[k - 1])
      if (input.requires_grad()) targets.emplace_back("samples", input);
    Tensors tensors;
    for (const auto& [name, target] : targets) tensors.push_back(target);
    const Tensors found = gradients_at(tensors, outputs[k - 1], signal);
    signal.assign(found.begin() + std::ssize(parameters), found.end());
    for (std::size_t i = 0; i < found.size(); ++i) targets[i].second = found[i];
    if (k > 1) targets.resize(parameters.size());
    outcome.gradients.insert(outcome.gradients.begin(), targets.begin(),
                             targets.end());
  }
  // The samples' gradient, if any, is wherever the first block ended.
  std::stable_partition(
      outcome.gradients.begin(), outcome.gradients.end(),
      [](const auto& named) { return named.first != "samples"; });
  return outcome;
}

}  // namespace sluice
