// A network that was written in Python: a TorchScript file, cut at modules of
// it.
//
//   [model]
//   name = "torchscript"
//   file = "resnet18.pt"
//   cuts = ["layer1", "layer2", "layer3", "layer4", "fc"]
//
// Its graphs are run as they were written, operation by operation, under
// LibTorch's own autograd: none of TorchScript's optimizations, which may round
// otherwise and differentiate by themselves. Dropouts draw masks by key, so
// that neither cut nor engine changes a bit.
#include "modules/script/torchscript.h"

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/tensors/generator_guard.h"
#include "lib/tensors/product_count.h"
#include "modules/models.h"
#include "modules/script/script_file.h"
#include "modules/script/script_graph.h"
#include "modules/script/script_layer.h"

namespace sluice {
namespace {

using Parts = std::vector<std::shared_ptr<const ScriptPart>>;

struct ScriptOptions {
  std::string file = {};
  /// Hash of the file, which the caller that names the file compares.
  std::string sha256 = {};
  std::vector<std::string> cuts = {};
  bool drawn = false;
  bool is_trusted = false;

  void describe(Fields& fields) {
    fields.key(
        "file", file,
        {.text =
             "the TorchScript file, of "
             "torch.jit.script(model).save(FILE): beside the config, in the "
             "current folder, or absolute"});
    fields.key("sha256", sha256,
               {.text = "hash of that file, which the resolved config has: a "
                        "run is continued with the same file only; \"\": any"});
    fields.key("cuts", cuts,
               {.text = "modules below which the model can be cut, as layer1 "
                        "or features.5; none: its children with parameters "
                        "but the first, where one tensor passes"});
    fields.key("weights", drawn, {{"file", false}, {"drawn", true}},
               {.text = "initial weights: those in the file, or LibTorch's "
                        "default distributions, drawn by seed"});
    fields.key(
        "trust", is_trusted,
        {.text = "read a file that does more than compute, or runs as it "
                 "is read: it may then do what this program may, so set "
                 "it only if you know who made the file"});
  }
};

void check_cuts_differ(const std::vector<std::string>& cuts) {
  std::set<std::string_view> seen;
  for (const std::string& cut : cuts)
    if (!seen.insert(cut).second)
      throw UserError("model.cuts: '{}' is there twice; leave one of them out",
                      cut);
}

void check_weights_are_float(const Parts& parts, const std::string& file) {
  std::size_t count = 0;
  for (const auto& part : parts) {
    for (const ScriptInput& input : part->inputs) {
      if (input.kind != ScriptInput::Kind::parameter) continue;
      const at::ScalarType type = input.value.toTensor().scalar_type();
      if (type != at::kFloat)
        throw UserError(
            "{}: '{}' is of {}; weights are float32 here: script model.float()",
            file, input.path, c10::toString(type));
      ++count;
    }
  }
  if (count == 0)
    throw UserError(
        "{}: forward() uses no parameters that want gradients; a module that "
        "was frozen (torch.jit.freeze) has none",
        file);
}

Model model_of_parts(const Parts& parts, bool drawn) {
  Model model;
  for (const auto& part : parts) {
    LayerSpec spec;
    spec.name = part->name;
    spec.make = [part, drawn] { return make_script_layer(part, drawn); };
    model.layers.push_back(std::move(spec));
  }
  return model;
}

/// Runs copies of the layers, one after another, on zeros.
class ScriptTrial {
 public:
  ScriptTrial(Model& model, const std::string& file)
      : model_(model), file_(file) {}

  /// Notes shapes and costs of a model's layers.
  void run(std::int64_t samples, bool training) {
    const SampleSpec& sample = model_.sample;
    std::vector<std::int64_t> sizes = sample.shape;
    sizes.insert(sizes.begin(), samples);
    Tensors values = {
        at::zeros(sizes, sample.is_text ? at::kLong : at::kFloat)};
    for (std::size_t i = 0; i < model_.layers.size(); ++i)
      values = through(i, values, training);
  }

 private:
  Tensors through(std::size_t i, const Tensors& inputs, bool training) {
    LayerSpec& spec = model_.layers[i];
    const auto layer = spec.make();
    layer->train(training);
    const std::int64_t version = inputs[0]._version();
    const std::int64_t samples = inputs[0].size(0);
    Tensors outputs;
    const double operations = count_products([&] {
      outputs = forward(
          *layer, spec, inputs,
          {.layer = static_cast<std::int64_t>(i), .training = training});
    });
    if (inputs[0]._version() != version)
      throw UserError(
          "{}: '{}' writes what comes from below in place, so the model can't "
          "be cut there; cut elsewhere with model.cuts",
          file_, spec.name);
    check_samples(spec, outputs[0], samples);
    spec.flops = operations / 2 / static_cast<double>(samples);
    spec.output = outputs[0].sizes().slice(1).vec();
    return outputs;
  }

  Tensors forward(Layer& layer, const LayerSpec& spec, const Tensors& inputs,
                  const Pass& pass) const {
    try {
      return layer.forward(inputs, pass);
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      throw UserError("{}: '{}' can't take [N, {}]: {}", file_, spec.name,
                      fmt::join(inputs[0].sizes().slice(1), ", "),
                      script_error(error));
    }
  }

  void check_samples(const LayerSpec& spec, const at::Tensor& output,
                     std::int64_t samples) const {
    if (output.dim() >= 2 && output.size(0) == samples &&
        output.is_floating_point())
      return;
    throw UserError(
        "{}: of {} samples '{}' makes {} [{}]; a part keeps the dimension of "
        "the samples, of which a trace fixes the number",
        file_, samples, spec.name, c10::toString(output.scalar_type()),
        fmt::join(output.sizes(), ", "));
  }

  Model& model_;
  const std::string& file_;
};

void try_script(Model& model, const std::string& file) {
  const at::NoGradGuard no_grad;
  const GeneratorGuard generator;
  ScriptTrial trial(model, file);
  trial.run(/*samples=*/3, /*training=*/false);
  trial.run(/*samples=*/2, /*training=*/true);
  if (generator.was_used())
    throw UserError(
        "{}: forward() draws from LibTorch's process-wide generator by more "
        "than dropouts, so its numbers would change with the cut",
        file);
}

/// Number of writes to each tensor that is neither parameter nor buffer.
std::vector<std::int64_t> writes_of_constants(const Parts& parts) {
  std::vector<std::int64_t> writes;
  for (const auto& part : parts)
    for (const ScriptInput& input : part->inputs)
      if (input.kind == ScriptInput::Kind::constant && input.value.isTensor())
        writes.push_back(input.value.toTensor()._version());
  return writes;
}

void check_script_output(const Model& model, const std::string& file) {
  const SampleSpec& sample = model.sample;
  SampleShape wanted = {sample.classes};
  if (sample.is_text) wanted.insert(wanted.begin(), sample.shape.at(0));
  if (model.layers.back().output == wanted) return;
  throw UserError("{}: gives [N, {}], and the data want [N, {}]", file,
                  fmt::join(model.layers.back().output, ", "),
                  fmt::join(wanted, ", "));
}

/// Checks that rules of Sluice's know all the weights.
void check_can_be_drawn(const Model& model, const std::string& file) {
  try {
    for (const LayerSpec& spec : model.layers) spec.make()->initialise(1);
  } catch (const InternalError& error) {
    throw UserError("{}: weights = \"drawn\": {}", file, error.what());
  }
}

Model make_torchscript(const ScriptOptions& options, const SampleSpec& sample) {
  check_cuts_differ(options.cuts);
  const torch::jit::Module module =
      load_script(options.file, options.is_trusted);
  Parts parts;
  for (ScriptPart& part : cut_script(module, options.cuts, options.file))
    parts.push_back(std::make_shared<const ScriptPart>(std::move(part)));
  check_weights_are_float(parts, options.file);
  Model model = model_of_parts(parts, options.drawn);
  model.sample = sample;
  const std::vector<std::int64_t> before = writes_of_constants(parts);
  try_script(model, options.file);
  if (writes_of_constants(parts) != before)
    throw UserError(
        "{}: forward() writes a tensor in place that is no buffer, which all "
        "blocks and replicas would share and no checkpoint has: register it "
        "with register_buffer()",
        options.file);
  check_script_output(model, options.file);
  if (options.drawn) check_can_be_drawn(model, options.file);
  return model;
}

/// Name in the script: "layer1.0.conv1.weight" of
/// "layers.2.layer1.0.conv1.weight".
std::string name_in_script(const std::string& name) {
  const std::size_t dot = name.find('.', name.find('.') + 1);
  SLUICE_CHECK(name.starts_with("layers.") && dot != name.npos,
               "'{}' is no layer's", name);
  return name.substr(dot + 1);
}

NamedTensors tensors_of_script(const torch::jit::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters())
    all.emplace_back(item.name, item.value);
  for (const auto& item : module.named_buffers())
    all.emplace_back(item.name, item.value);
  return all;
}

}  // namespace

MakeModel torchscript(Fields& fields) {
  ScriptOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_torchscript(options, sample);
  };
}

void check_torchscript(const std::string& file) {
  load_script(file, /*is_trusted=*/false);
}

void save_torchscript(const std::string& from, bool is_trusted,
                      const NamedTensors& weights, const std::string& to) {
  const torch::jit::Module module = load_script(from, is_trusted);
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, tensor] : tensors_of_script(module))
    own[name] = tensor;
  NamedTensors given;
  NamedTensors replaced;
  for (const auto& [name, tensor] : weights) {
    const std::string plain = name_in_script(name);
    const auto found = own.find(plain);
    if (found == own.end())
      throw UserError(
          "{}: has no tensor '{}', which the run trained: it is "
          "another file than the run's",
          from, plain);
    given.emplace_back(plain, tensor);
    replaced.emplace_back(*found);
  }
  copy_by_name(given, replaced, "the checkpoint");
  write_file_atomically(to, [&](std::ostream& stream) { module.save(stream); });
}

}  // namespace sluice
