#include "tests/experiments/sweep/sweeps.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace sluice {

namespace fs = std::filesystem;

std::vector<nlohmann::json> evaluations_of(const std::string& run) {
  std::vector<nlohmann::json> evaluations;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line);
    if (record["kind"] != "evaluation") continue;
    for (const char* timed : {"time", "seconds", "samples_per_second"})
      record.erase(timed);
    evaluations.push_back(std::move(record));
  }
  return evaluations;
}

SluiceSweeps::SluiceSweeps() {
  write("small.toml", config_with("blocks = 2\nevaluate_every = 0\n"
                                  "model = {hidden = [16]}\n"));
}

std::string SluiceSweeps::command(const std::string& arguments,
                                  const std::string& dir) const {
  return fmt::format("sweep {} --dir {} {}", path("small.toml"), path(dir),
                     arguments);
}

Outcome SluiceSweeps::sweep(const std::string& arguments,
                            const std::string& dir) const {
  return sluice(command(arguments, dir));
}

std::string SluiceSweeps::interrupted(const std::string& arguments,
                                      const std::string& dir,
                                      const std::string& there,
                                      const std::string& text,
                                      int signal) const {
  const std::string log = path("log");
  const std::string pid = path("pid");
  std::thread program([&] {
    std::system(fmt::format("sh -c 'echo $$ > {}; exec {} {}' > {} 2>&1; "
                            "echo \"status $?\" >> {}",
                            pid, SLUICE_PROGRAM, command(arguments, dir), log,
                            log)
                    .c_str());
  });
  while (slurp(path(there)).find(text) == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(std::stoi(slurp(pid)), signal);
  program.join();
  return slurp(log);
}

std::map<std::string, std::string> SluiceSweeps::numbers_of(
    const std::string& dir) const {
  std::map<std::string, std::string> numbers;
  for (const auto& entry : fs::recursive_directory_iterator(path(dir))) {
    const fs::path file = entry.path();
    const std::string name = fs::relative(file, path(dir)).string();
    if (file.extension() == ".safetensors") numbers[name] = slurp(file);
    if (file.filename() == "metrics.jsonl")
      for (const auto& record : evaluations_of(file.parent_path()))
        numbers[name] += record.dump();
  }
  return numbers;
}

}  // namespace sluice
