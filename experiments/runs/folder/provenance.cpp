#include "experiments/runs/folder/provenance.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <torch/version.h>
#include <unistd.h>

#include "experiments/config/files/json.h"
#include "experiments/config/files/json_file.h"
#include "experiments/config/pinned_files.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/limited_command.h"
#include "experiments/runs/folder/maker.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/processors.h"
#include "sluice_commit.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

/// A run shall not wait for a file system that hangs, nor keep a patch that
/// is too long to read.
constexpr CommandLimits kGitLimits = {.time = std::chrono::seconds(10),
                                      .bytes = std::int64_t{64} << 20};

/// The environment without what would send git elsewhere, or make it start
/// programs.
std::vector<std::string> environment_for_git() {
  std::vector<std::string> kept = {"GIT_OPTIONAL_LOCKS=0",
                                   "GIT_TERMINAL_PROMPT=0"};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("GIT_"))
      kept.emplace_back(*entry);
  return kept;
}

/// Runs git in the repository around the current folder. That repository's
/// config may come from a stranger: no program that it names is run.
CommandEnd git(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"git", "--no-pager", "-c",
                                   "core.fsmonitor=false"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_limited(argv, environment_for_git(), kGitLimits);
}

CommandEnd git_diff() {
  return git({"diff", "--no-ext-diff", "--no-textconv", "--no-color",
              "--ignore-submodules=dirty", "HEAD"});
}

bool is_in_repository() {
  std::error_code ignored;
  for (auto folder = fs::current_path(ignored); !folder.empty();
       folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", ignored)) return true;
    if (folder == folder.root_path()) break;
  }
  return false;
}

void add_commit(Json& run) {
  if (!is_in_repository()) return;
  const CommandEnd head = git({"rev-parse", "HEAD"});
  if (!head.failure.empty()) {
    run["git"] = head.failure;
    return;
  }
  run["commit"] = head.out.substr(0, head.out.find('\n'));
  const CommandEnd changes = git_diff();
  if (changes.failure.empty())
    run["uncommitted_changes"] = !changes.out.empty();
  else
    run["git"] = "diff: " + changes.failure;
}

/// One of the keys of run.json with another type than provenance() gives it.
void check_type(const Json& json, const char* key, bool is_good,
                const char* wanted, const std::string& path) {
  if (!is_good)
    throw UserError("{}: '{}' is {}, expected {}; mend it, or do the run anew",
                    path, key, json.at(key).type_name(), wanted);
}

void check_part(const Json& json, const std::string& path) {
  constexpr double kYear5000 = 1e11;
  if (!json.is_object())
    throw UserError("{}: holds {}, expected an object; do the run anew", path,
                    json.type_name());
  for (const char* key :
       {"command", "program", "sluice", "build", "libtorch", "compiler", "host",
        "engine", "commit", "git", "processor", "instruction_set", "driver"})
    if (json.contains(key))
      check_type(json, key, json[key].is_string(), "a string", path);
  for (const char* key :
       {"started", "turn", "seed", "blocks", "cores", "threads"})
    if (json.contains(key))
      check_type(json, key, json[key].is_number(), "a number", path);
  if (json.contains("started"))
    check_type(json, "started",
               std::abs(json["started"].get<double>()) < kYear5000,
               "seconds since 1970", path);
  if (json.contains("data"))
    check_type(json, "data", json["data"].is_object(), "a table", path);
  if (json.contains("plugins"))
    check_type(json, "plugins", json["plugins"].is_array(), "a list", path);
  if (!json.contains("devices")) return;
  check_type(json, "devices", json["devices"].is_array(), "a list", path);
  for (const Json& device : json["devices"])
    check_type(json, "devices", device.is_string(), "a list of strings", path);
}

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "unknown";
}

/// Whether a program has made the run's layers: that program alone can make
/// them again.
bool has_own_layers(const Experiment& experiment) {
  if (!experiment.data) return true;  // a network's own loop
  const ConfigNode* model = experiment.resolved.find("model");
  const ConfigNode* name = model == nullptr ? nullptr : model->find("name");
  return name != nullptr &&
         *name == ConfigNode{.value = std::string(kOwnModel)};
}

/// Hashes of files that the config names, beside those of its data.
void add_pinned_files(const Experiment& experiment, Json& run) {
  const std::string script = script_file_of(experiment.resolved);
  if (!script.empty())
    run["torchscript"] = {
        {"file", script},
        {"sha256", text_of_key(experiment.resolved, "model", "sha256")}};
  if (experiment.data && !experiment.data->tokenizer_sha256.empty())
    run["tokenizer"] = {{"sha256", experiment.data->tokenizer_sha256}};
}

}  // namespace

std::string this_build() {
  return SLUICE_COMMIT;
}

nlohmann::ordered_json provenance(const std::string& command,
                                  const Experiment& experiment,
                                  double started) {
  nlohmann::ordered_json run;
  run["command"] = command;
  if (has_own_layers(experiment)) run["program"] = path_of_own_image();
  run["started"] = started;
  run["sluice"] = SLUICE_VERSION;
  run["build"] = this_build();
  run["libtorch"] = TORCH_VERSION;
  run["compiler"] = __VERSION__;
  run["host"] = host_name();
  run["devices"] = {processor()};
  run["cores"] = usable_processors();
  run["seed"] = experiment.seed;
  run["blocks"] = experiment.blocks();
  run["engine"] = name_of(experiment.engine);
  run.update(maker_keys(experiment));
  if (const ConfigNode* plugins = experiment.resolved.find("plugins"))
    run["plugins"] = json_of(*plugins);
  add_pinned_files(experiment, run);
  if (experiment.data) {
    const DataSet& data = *experiment.data;
    run["samples"] = {{"train", data.train.size()},
                      {"validation", data.validation.size()},
                      {"test", data.test.size()}};
    run["data"] = data_identity(experiment);
  }
  add_commit(run);
  return run;
}

Json read_provenance(const std::string& path) {
  Json run = read_json_file(path);
  check_part(run, path);
  if (!run.contains("continued")) return run;
  check_type(run, "continued", run["continued"].is_array(), "a list", path);
  for (const Json& part : run["continued"]) check_part(part, path);
  return run;
}

std::string version_number() {
  return SLUICE_VERSION;
}

std::string version_text() {
  return fmt::format(
      "{} ({} {}, LibTorch {}, {})", SLUICE_VERSION,
      std::string_view(SLUICE_COMMIT).starts_with('v') ? "version" : "commit",
      SLUICE_COMMIT, TORCH_VERSION, SLUICE_BUILD_TYPE);
}

std::string uncommitted_changes() {
  return is_in_repository() ? git_diff().out : "";
}

}  // namespace sluice
