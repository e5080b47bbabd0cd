#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"

namespace sluice {

/// A plug-in and a config that names it, in the folder of the test.
class PluginProgram : public Program {
 protected:
  PluginProgram() {
    library_ = copy_of("mine", "libmine.so");
    config_ = write("mine.toml",
                    "plugins = ['libmine.so']\n"
                    "blocks = 2\nturns = 12\nbatch_size = 32\nthreads = 1\n"
                    "data = {name = 'mine_data'}\n"
                    "model = {hidden = [16, 16]}\n"
                    "boundary = {policy = 'local_loss', head = {name = "
                    "'mine_head'}}\n"
                    "optimizer = {lr = 0.1}\n");
  }

  std::string copy_of(const std::string& plugin, const std::string& to) const {
    std::filesystem::create_directories(
        std::filesystem::path(path(to)).parent_path());
    std::filesystem::copy_file(
        fmt::format("{}/lib{}.so", SLUICE_TEST_PLUGINS, plugin), path(to));
    return path(to);
  }
  /// Other bytes; it loads and does the same.
  static void rebuild(const std::string& library) {
    std::ofstream(library, std::ios::app) << "another build";
  }

  Outcome run(const std::string& dir, const std::string& more = "") const {
    return sluice(fmt::format("run {} --dir {} {}", config_, path(dir), more));
  }
  NamedTensors weights_of(const std::string& dir) const {
    return load_weights(checkpoint_folder(path(dir + "/checkpoints"), 12));
  }
  nlohmann::json run_file(const std::string& dir) const {
    return nlohmann::json::parse(slurp(path(dir + "/run.json")));
  }

  /// Hash of the first plug-in that run.json, or a part of it, has.
  static std::string hash_in(const nlohmann::json& run) {
    return run.at("plugins").at(0).at("sha256").get<std::string>();
  }

  std::string library_;
  std::string config_;
};

}  // namespace sluice
