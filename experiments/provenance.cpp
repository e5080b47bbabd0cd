#include "experiments/provenance.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

#include <torch/version.h>
#include <unistd.h>

#include "sluice_commit.h"

namespace sluice {
namespace {

/// The standard output of a command without a user's words in it; empty when it
/// fails.
std::string output_of(const char* command) {
  FILE* pipe = ::popen(command, "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0;
       (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  return ::pclose(pipe) == 0 ? text : "";
}

std::string line_of(const char* command) {
  std::string text = output_of(command);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
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

}  // namespace

std::string this_build() {
  return SLUICE_COMMIT;
}

nlohmann::ordered_json provenance(const std::string& command,
                                  const Experiment& experiment,
                                  double started) {
  nlohmann::ordered_json run;
  run["command"] = command;
  run["started"] = started;
  run["sluice"] = SLUICE_VERSION;
  run["build"] = this_build();
  run["libtorch"] = TORCH_VERSION;
  run["compiler"] = __VERSION__;
  run["host"] = host_name();
  run["devices"] = {processor()};
  run["cores"] = std::thread::hardware_concurrency();
  run["seed"] = experiment.seed;
  run["blocks"] = experiment.blocks();
  run["engine"] = experiment.engine;
  const std::string commit = line_of("git rev-parse HEAD 2>/dev/null");
  if (!commit.empty()) {
    run["commit"] = commit;
    run["uncommitted_changes"] = !uncommitted_changes().empty();
  }
  return run;
}

std::string uncommitted_changes() {
  return output_of("git diff HEAD 2>/dev/null");
}

}  // namespace sluice
