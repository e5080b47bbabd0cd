#include "lib/engines/child_processes.h"

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {

ChildProcesses::~ChildProcesses() {
  if (grace_.joinable()) {
    grace_.request_stop();
    grace_.join();
  }
  kill_all();
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) reap(child, 0);
}

void ChildProcesses::start(const std::string& name,
                           const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  // The child starts with no signal blocked, whatever this thread blocks.
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0].c_str(), nullptr, &attributes,
                                   arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    throw UserError("{} can't be started: {}: {}", name, argv[0],
                    std::strerror(failed));
  const std::lock_guard lock(mutex_);
  children_.push_back({name, pid});
}

void ChildProcesses::reap(Child& child, int options) {
  if (!child.running) return;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child.pid, &child.status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended != 0) child.running = false;
}

void ChildProcesses::throw_if_failed(const Child& child) {
  if (child.running || child.status == 0) return;
  if (WIFSIGNALED(child.status))
    throw LinkError("the worker process of {} was ended by signal {} ({})",
                    child.name, WTERMSIG(child.status),
                    strsignal(WTERMSIG(child.status)));
  throw LinkError("the worker process of {} ended with status {}", child.name,
                  WEXITSTATUS(child.status));
}

void ChildProcesses::check() {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) reap(child, WNOHANG);
  for (const Child& child : children_) throw_if_failed(child);
}

void ChildProcesses::kill_all() {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) {
    reap(child, WNOHANG);
    if (!child.running) continue;
    child.killed = true;
    ::kill(child.pid, SIGKILL);
  }
}

void ChildProcesses::kill_after(std::chrono::milliseconds grace) {
  std::call_once(grace_once_, [&] {
    grace_ = std::jthread([this, grace](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any over;
      if (!over.wait_for(lock, stop, grace, [] { return false; }) &&
          !stop.stop_requested())
        kill_all();
    });
  });
}

bool ChildProcesses::some_run() {
  const std::lock_guard lock(mutex_);
  bool running = false;
  for (Child& child : children_) {
    reap(child, WNOHANG);
    running = running || child.running;
  }
  return running;
}

void ChildProcesses::wait(std::chrono::milliseconds grace) {
  const auto end = std::chrono::steady_clock::now() + grace;
  while (some_run()) {
    if (std::chrono::steady_clock::now() > end) kill_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_)
    if (WIFSIGNALED(child.status) && !child.killed) throw_if_failed(child);
  for (const Child& child : children_) throw_if_failed(child);
}

void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(1);
}

}  // namespace sluice
