#include "experiments/runs/uses/export.h"

#include <charconv>
#include <filesystem>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/config/files/json.h"
#include "experiments/config/files/toml.h"
#include "experiments/runs/checkpoints/public_names.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/folder/sound_checkpoint.h"
#include "experiments/runs/uses/evaluation.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/blocks/adapters.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/set_aside.h"
#include "modules/script/torchscript.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExport = "sluice export";

NamedCheckpoint checkpoint_at(const std::string& path) {
  const fs::path folder = fs::weakly_canonical(path);
  const auto turn = turn_of(folder.string());
  SLUICE_CHECK(turn, "{} is no checkpoint", folder.string());
  return {folder.parent_path().parent_path().string(), folder.string(), *turn};
}

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

/// Name of a turn's checkpoint: "turn-000120" of "120".
std::string full_name(const std::string& name) {
  std::int64_t turn = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, turn);
  if (error != std::errc() || stop != end || turn < 0) return name;
  return file_name(checkpoint_folder("", turn));
}

NamedCheckpoint checkpoint_of_run(const std::string& run,
                                  const std::string& name) {
  const auto found = find_checkpoints(checkpoints_of_run(run));
  if (found.empty()) check_last_was_kept(run, kExport);
  if (found.empty())
    throw UserError(
        "{}: has no checkpoint yet; a run saves one at its end, at Ctrl-C and "
        "as often as checkpoint.every says",
        run);
  const std::string best = checkpoints_of_run(run) + "/best";
  const bool has_best = fs::exists(best);
  if (name == "last" || (name.empty() && !has_best)) {
    check_last_was_kept(run, kExport);
    return checkpoint_at(found.rbegin()->second);
  }
  if (has_best && (name == "best" || name.empty())) return checkpoint_at(best);
  std::vector<std::string> names = {"last"};
  if (has_best) names.emplace_back("best");
  for (const auto& [turn, path] : found) {
    names.push_back(file_name(path));
    if (names.back() == full_name(name)) return checkpoint_at(path);
  }
  throw UserError("{}: has no checkpoint '{}'{}; there are: {}", run, name,
                  perhaps(name, names), joined(names));
}

/// What wrote the turns before `turn`: run.json, or the last part that went on
/// from an earlier one.
Json provenance_until(const NamedCheckpoint& from) {
  const std::string path = from.folder + "/run.json";
  if (!fs::exists(path)) return Json::object();
  const Json run = read_provenance(path);
  Json last = run;
  if (run.contains("continued"))
    for (const Json& part : run["continued"])
      if (part.value("turn", std::int64_t{0}) < from.turn) last = part;
  return last;
}

/// Notes that files of every run get.
FileNotes notes_of_run(const std::string& name, const NamedCheckpoint& from) {
  FileNotes notes = {{"format", "pt"},
                     {"sluice", version_number()},
                     {"name", name},
                     {"turn", std::to_string(from.turn)}};
  const Json run = provenance_until(from);
  for (const char* key : {"build", "commit"})
    if (run.contains(key)) notes.emplace_back(key, run[key].get<std::string>());
  return notes;
}

std::string model_option(const Experiment& experiment, const char* key) {
  const ConfigNode* option = experiment.resolved.find("model")->find(key);
  return std::get<std::string>(option->value);
}

FileNotes notes_of(const Experiment& experiment, const NamedCheckpoint& from) {
  const SampleSpec& sample = experiment.model.sample;
  Json layers = Json::array();
  for (const LayerSpec& layer : experiment.model.layers)
    layers.push_back(layer.name);
  FileNotes notes = notes_of_run(experiment.name, from);
  const Json shape = {{"shape", sample.shape}, {"classes", sample.classes}};
  notes.emplace_back("model",
                     json_of(*experiment.resolved.find("model")).dump());
  notes.emplace_back("sample", shape.dump());
  notes.emplace_back("layers", layers.dump());
  notes.emplace_back("config", to_toml(experiment.resolved));
  return notes;
}

}  // namespace

NamedCheckpoint find_checkpoint(const std::string& path,
                                const std::string& name) {
  if (fs::exists(config_of_run(path))) return checkpoint_of_run(path, name);
  const fs::path folder = fs::weakly_canonical(path);
  const bool is_one = fs::is_directory(folder) && turn_of(folder.string());
  if (is_set_aside(folder.string()))
    check_are_finite(load_weights(folder.string()), path, kExport);
  if (!is_one) check_is_run(path);
  if (!name.empty())
    throw UserError("{}: is a checkpoint itself; --checkpoint goes with a run",
                    path);
  return checkpoint_at(path);
}

std::size_t export_model(const Experiment& experiment,
                         const NamedCheckpoint& from, const std::string& file,
                         const std::string& names) {
  NamedTensors tensors = load_model(experiment, from.path, kExport).tensors();
  if (const auto& adapter = experiment.fine_tuning.adapter; adapter.rank > 0)
    tensors = with_merged_adapters(tensors, adapter);
  if (!names.empty()) {
    const NamedModel model = named_model_of(experiment);
    tensors = with_public_names(find_names(names, model.name), model, tensors);
  }
  write_safetensors(file, tensors, notes_of(experiment, from));
  return tensors.size();
}

std::size_t export_own_layers(const ConfigNode& config,
                              const NamedCheckpoint& from,
                              const std::string& file) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : load_weights(from.path))
    if (name.starts_with("layers.")) tensors.emplace_back(name, tensor);
  check_are_finite(tensors, from.path, kExport);
  const ConfigNode* name = config.find("name");
  const auto* text =
      name == nullptr ? nullptr : std::get_if<std::string>(&name->value);
  FileNotes notes = notes_of_run(text == nullptr ? "" : *text, from);
  notes.emplace_back("config", to_toml(config));
  write_safetensors(file, tensors, notes);
  return tensors.size();
}

std::size_t export_torchscript(const Experiment& experiment,
                               const NamedCheckpoint& from,
                               const std::string& file) {
  const std::string name = model_option(experiment, "name");
  if (name != "torchscript")
    throw UserError(
        "--torchscript: the model of {} is '{}', which came from no "
        "TorchScript file; without this option its weights are written as a "
        ".safetensors file",
        from.folder, name);
  for (const BoundaryCodecs& codecs : experiment.codecs)
    if (codecs.add_layers)
      throw UserError(
          "--torchscript: a codec of {} has layers of its own at the cut, for "
          "which the file has no place; without this option they are written "
          "into a .safetensors file",
          from.folder);
  const NamedTensors tensors =
      load_model(experiment, from.path, kExport).tensors();
  const ConfigNode* trust = experiment.resolved.find("model")->find("trust");
  save_torchscript(model_option(experiment, "file"),
                   std::get<bool>(trust->value), tensors, file);
  return tensors.size();
}

}  // namespace sluice
