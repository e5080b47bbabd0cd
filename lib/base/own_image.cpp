#include "lib/base/own_image.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <sys/prctl.h>

namespace sluice {

std::string path_of_own_image() {
  std::string path = std::filesystem::read_symlink(kOwnImage).string();
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');)
    arguments.push_back(argument);
  return arguments;
}

void show_own_name() {
  const std::string name =
      std::filesystem::path(path_of_own_image()).filename().string();
  ::prctl(PR_SET_NAME, name.c_str());
}

void let_large_writes_fail() {
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace sluice
