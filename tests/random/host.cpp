// The program `sluice`, which loads LibTorch once for many short commands.
//
// Without arguments it reads a line {"arguments", "folder", "out", "err"} for
// each command, runs it in a fork and writes two lines: the process's number,
// and its end ("exit 2", "signal 11"). With arguments it is `sluice`: so do
// worker processes begin, which are started from the image of this program.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/program/command_line.h"
#include "experiments/program/data_commands.h"
#include "lib/base/own_image.h"
#include "lib/base/process_start.h"

namespace {

int sluice_main(int argc, char** argv) {
  sluice::begin_process();
  sluice::let_large_writes_fail();
  return sluice::run_command_line(argc, argv,
                                  {.fetch = sluice::data_fetch_command,
                                   .fetchable = sluice::fetchable_sets()});
}

/// Ends the process without destroying what LibTorch has, which takes 0.2 s.
[[noreturn]] void end(int status) {
  std::fflush(nullptr);
  std::cout.flush();
  _exit(status);
}

void write_into(const std::string& file, int descriptor) {
  const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (opened < 0 || dup2(opened, descriptor) < 0) std::exit(126);
  close(opened);
}

/// Only in a fork: it ends the process.
[[noreturn]] void run(const nlohmann::json& command) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  close(nothing);
  write_into(command.at("out"), STDOUT_FILENO);
  write_into(command.at("err"), STDERR_FILENO);
  const std::string folder = command.at("folder");
  if (chdir(folder.c_str()) != 0) std::exit(126);
  std::vector<std::string> words = command.at("arguments");
  words.insert(words.begin(), "sluice");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  end(sluice_main(static_cast<int>(words.size()), arguments.data()));
}

std::string end_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit {}", WEXITSTATUS(status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const int status = sluice_main(argc, argv);
    // Ranks, and the worker of rank 0, end MPI when they return.
    const bool has_mpi = std::getenv("PMI_RANK") != nullptr;
    if (std::string_view(argv[1]) == "worker" && !has_mpi) end(status);
    return status;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json command = nlohmann::json::parse(line);
    const pid_t process = fork();
    if (process == 0) run(command);
    std::cout << process << std::endl;
    std::cout << end_of(process) << std::endl;
  }
  return 0;
}
