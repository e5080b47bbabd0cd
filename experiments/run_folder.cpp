#include "experiments/run_folder.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>
#include <torch/version.h>
#include <unistd.h>

#include "experiments/config/toml.h"
#include "lib/base/error.h"
#include "lib/base/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Everything that a run writes; an overwritten run loses these and no more.
constexpr std::array kEntries = {"config.toml", "run.json", "metrics.jsonl",
                                 "checkpoints", "done"};

class MetricsFile final : public Sink {
 public:
  explicit MetricsFile(std::string path)
      : path_(std::move(path)), file_(path_, std::ios::app) {
    check();
  }
  void write(const Record& record) override {
    file_ << to_json(record) << '\n' << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_)
      throw UserError("{}: can't be written; is the disk full?", path_);
  }

  std::string path_;
  std::ofstream file_;
};

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](std::ostream& file) { file << text; });
}

std::string run_json(const std::string& command, const Experiment& experiment) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::chrono::duration<double> now =
      std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json run;
  run["command"] = command;
  run["sluice"] = SLUICE_VERSION;
  run["libtorch"] = TORCH_VERSION;
  run["compiler"] = __VERSION__;
  run["host"] = host.data();
  run["started"] = now.count();
  run["seed"] = experiment.seed;
  run["blocks"] = experiment.blocks();
  run["engine"] = experiment.engine;
  return run.dump(2) + "\n";
}

}  // namespace

RunFolder::RunFolder(std::string path, const Experiment& experiment,
                     const std::string& command, bool overwrite)
    : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw UserError("{}: can't be made: {}", path_, error.message());
  for (const char* entry : kEntries) {
    const std::string file = path_ + "/" + entry;
    if (!fs::exists(file)) continue;
    if (!overwrite)
      throw UserError(
          "{} holds a run already ({}); give another --dir, or --overwrite to "
          "remove that run",
          path_, entry);
    fs::remove_all(file, error);
    if (error)
      throw UserError("{}: can't be removed: {}", file, error.message());
  }
  write_text(path_ + "/config.toml", to_toml(experiment.resolved));
  write_text(path_ + "/run.json", run_json(command, experiment));
}

std::shared_ptr<Sink> RunFolder::metrics() const {
  return std::make_shared<MetricsFile>(path_ + "/metrics.jsonl");
}

void RunFolder::mark_done() const {
  write_text(path_ + "/done", "");
}

std::string free_run_folder(const std::string& name) {
  for (int number = 1;; ++number) {
    std::string path = fmt::format("runs/{}-{}", name, number);
    if (!fs::exists(path)) return path;
  }
}

std::string config_of_run(const std::string& path) {
  return path + "/config.toml";
}

}  // namespace sluice
