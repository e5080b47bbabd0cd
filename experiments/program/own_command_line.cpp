#include "experiments/program/own_command_line.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"
#include "lib/base/files/output_file.h"

namespace sluice {
namespace {

/// Whether a command of these words wants a config, and has none.
bool lacks_config(const std::vector<std::string>& words, std::size_t command) {
  constexpr std::array<std::string_view, 6> kTakers = {
      "run", "sweep", "verify", "plan", "config", "order"};
  if (std::find(kTakers.begin(), kTakers.end(), words[command]) ==
      kTakers.end())
    return false;
  for (std::size_t i = command + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--resume" || word.starts_with("--resume=") ||
        word == "--help" || word == "-h")
      return false;
    const bool is_machine = words[i - 1] == "--machine";
    if (word.ends_with(".toml") && word.find('=') == word.npos && !is_machine)
      return false;
  }
  return true;
}

}  // namespace

OwnCommandLine::OwnCommandLine(int argc, char** argv, const ConfigNode& config,
                               const std::string& program)
    : words_(argv, argv + argc) {
  const std::size_t command = words_.size() > 2 && words_[1] == "data" ? 2 : 1;
  if (words_.size() <= command || !lacks_config(words_, command)) return;
  folder_.emplace();
  const std::string path = fmt::format("{}/{}.toml", folder_->path(), program);
  OutputFile file(path);
  file << to_toml(config);
  if (!file.flush()) throw UserError("{}: can't be written", path);
  words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(command) + 1,
                path);
}

std::vector<char*> OwnCommandLine::arguments() {
  std::vector<char*> all;
  for (std::string& word : words_) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

OwnModel model_of_program(const NetworkOptions& options) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  OwnModel own = make_own_model(options.layers, options.example);
  at::set_num_threads(threads);
  return own;
}

}  // namespace sluice
