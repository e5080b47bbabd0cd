#pragma once

#include <csignal>
#include <string>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {

/// helpers/file_server.py, while this object lives.
class FileServer {
 public:
  FileServer(std::string folder, std::string log) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) throw UserError("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string script =
        std::string(SLUICE_TEST_FOLDER) + "/experiments/helpers/file_server.py";
    std::string python = SLUICE_TEST_PYTHON;
    char* arguments[] = {python.data(), script.data(), folder.data(),
                         log.data(), nullptr};
    if (::posix_spawn(&process_, python.c_str(), &actions, nullptr, arguments,
                      environ) != 0)
      throw UserError("{} can't be started", python);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) port_ += c;
    ::close(ends[0]);
  }
  ~FileServer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  /// The folder of URLs that are served in this way (see the script).
  std::string url(const std::string& behaviour) const {
    return "http://127.0.0.1:" + port_ + "/" + behaviour;
  }

 private:
  pid_t process_ = 0;
  std::string port_;
};

}  // namespace sluice
