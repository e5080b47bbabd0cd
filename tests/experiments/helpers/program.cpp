#include "tests/experiments/helpers/program.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <sys/wait.h>

#include "lib/checkpoints/checkpoint.h"

namespace sluice {

namespace fs = std::filesystem;

Outcome shell(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0;
       (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome sluice(const std::string& arguments) {
  return shell(fmt::format("{} {}", SLUICE_PROGRAM, arguments));
}

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Program::Program() {
  std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
}

std::string Program::write(const std::string& name,
                           const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

NamedTensors Program::weights_on(const std::string& engine,
                                 const std::string& config) {
  const std::string dir = path(engine);
  const Outcome run = sluice("run " + config + " engine=" + engine +
                             " --overwrite --dir " + dir);
  EXPECT_EQ(run.status, 0) << run.text;
  return load_weights(checkpoint_folder(dir + "/checkpoints", 12));
}

std::string config_with(const std::string& lines) {
  return "turns = 12\nbatch_size = 24\nthreads = 1\n" + lines +
         "data = {train = 240, test = 40}\n";
}

}  // namespace sluice
