#include "lib/engines/child_processes.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/awake_clock.h"
#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/stopping_signals.h"

namespace sluice {
namespace {

/// Bytes that a pipe takes without a reader.
constexpr std::size_t kMostInput = 4096;

/// The reading end of a pipe that holds `text` and then ends.
class FilledPipe {
 public:
  explicit FilledPipe(const std::string& text) {
    SLUICE_CHECK(text.size() <= kMostInput, "an input of {} bytes",
                 text.size());
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw UserError("no pipe could be made: {}", errno_text());
    reading_ = ends[0];
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::close(ends[1]);
    SLUICE_CHECK(written == static_cast<ssize_t>(text.size()),
                 "a pipe took {} of {} bytes", written, text.size());
  }
  ~FilledPipe() { ::close(reading_); }
  FilledPipe(const FilledPipe&) = delete;
  FilledPipe& operator=(const FilledPipe&) = delete;

  int reading() const { return reading_; }

 private:
  int reading_ = -1;
};

/// The exit status of a program that the user has misused (main.cpp's).
constexpr int kMisused = 2;

/// Pointers as exec() takes them: to those texts, then to the others, and a
/// null at the end.
std::vector<char*> pointers_to(const std::vector<std::string>& texts,
                               char* const* others) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  for (; others != nullptr && *others != nullptr; ++others)
    pointers.push_back(*others);
  pointers.push_back(nullptr);
  return pointers;
}

/// Real-time signals have no names.
std::string name_of_signal(int signal) {
  const char* const name = ::sigdescr_np(signal);
  return name == nullptr ? "of no name" : name;
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  kill_all();
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) reap(child, 0);
}

void ChildProcesses::start(int block, const ChildCommand& command,
                           const std::string& input) {
  const FilledPipe pipe(input);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, pipe.reading(), STDIN_FILENO);
  const std::string& file =
      command.file.empty() ? command.arguments.at(0) : command.file;
  const std::vector<char*> arguments = pointers_to(command.arguments, nullptr);
  const std::vector<char*> environment =
      pointers_to(command.environment, environ);
  // A signal to all processes of the run may come before the child can say that
  // it leaves them to this one.
  posix_spawnattr_t attributes;
  const sigset_t held = stopping_signals();
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &held);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, file.c_str(), &files, &attributes,
                                   arguments.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    throw UserError("the worker of {} can't be started: {}: {}",
                    names_.of(block), file,
                    std::generic_category().message(failed));
  const std::lock_guard lock(mutex_);
  children_.push_back({block, pid});
}

void ChildProcesses::reap(Child& child, int options) {
  if (!child.running) return;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child.pid, &child.status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended != 0) child.running = false;
  if (ended < 0) child.unseen = true;
}

bool ChildProcesses::has_failed(const Child& child) {
  return !child.running && child.status != 0;
}

WorkerLostError ChildProcesses::loss_of(const Child& child) const {
  if (child.unseen)
    return {child.block,
            fmt::format("the worker process {} of {} ended, nobody knows how: "
                        "SIGCHLD is ignored here",
                        child.pid, names_.of(child.block))};
  const int signal = WIFSIGNALED(child.status) ? WTERMSIG(child.status) : 0;
  return {child.block,
          fmt::format("the worker process {} of {} {}", child.pid,
                      names_.of(child.block),
                      signal != 0 ? fmt::format("was ended by signal {} ({})",
                                                signal, name_of_signal(signal))
                                  : fmt::format("ended with status {}",
                                                WEXITSTATUS(child.status)))};
}

void ChildProcesses::check() {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) reap(child, WNOHANG);
  for (const Child& child : children_) {
    if (!has_failed(child)) continue;
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == kMisused)
      throw UserError("{}: its worker can't start; it said why above",
                      names_.of(child.block));
    throw loss_of(child);
  }
}

void ChildProcesses::check_joining() {
  check();
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_)
    if (!child.running) throw loss_of(child);
}

int ChildProcesses::stopped() {
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_) {
    siginfo_t found = {};
    if (child.running &&
        ::waitid(P_PID, static_cast<id_t>(child.pid), &found,
                 WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        found.si_pid == child.pid)
      return child.block;
  }
  return 0;
}

std::string ChildProcesses::name_of(int block) {
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_)
    if (child.block == block && !child.killed)
      return fmt::format("the worker process {} of {}", child.pid,
                         names_.of(block));
  return fmt::format("the worker of {}", names_.of(block));
}

WorkerLostError ChildProcesses::missing(int block, const std::string& why) {
  std::string text =
      fmt::format("{} has not joined the others", name_of(block));
  if (!why.empty()) text += fmt::format(" ({})", why);
  if (stopped() == block)
    text += ": it is stopped (SIGSTOP); SIGCONT lets it go on";
  return {block, text};
}

std::string ChildProcesses::how_ended(int block) {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) {
    if (child.block != block) continue;
    reap(child, WNOHANG);
    if (!child.running && !child.unseen && WIFSIGNALED(child.status) &&
        !child.killed)
      return loss_of(child).what();
  }
  return "";
}

void ChildProcesses::kill(Child& child) {
  reap(child, WNOHANG);
  if (!child.running) return;
  child.killed = true;
  ::kill(child.pid, SIGKILL);
}

void ChildProcesses::kill(int block) {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_)
    if (child.block == block) kill(child);
}

void ChildProcesses::abandon(int block) {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) {
    if (child.block != block) continue;
    kill(child);
    child.killed = true;
  }
}

void ChildProcesses::kill_all() {
  const std::lock_guard lock(mutex_);
  for (Child& child : children_) kill(child);
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

std::optional<WorkerLostError> ChildProcesses::wait(
    std::chrono::milliseconds grace) {
  AwakeClock clock;
  const auto end = clock.now() + grace;
  while (some_run()) {
    if (clock.now() > end) kill_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_)
    if (WIFSIGNALED(child.status) && !child.killed) return loss_of(child);
  return std::nullopt;
}

void leave_signals_to_launcher(TimeLimit limit) {
  const sigset_t set = stopping_signals();
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE})
    std::signal(signal, SIG_IGN);
  // A limit of seconds holds for each process.
  if (limit == TimeLimit::stops_launcher)
    std::signal(SIGXCPU, [](int) { ::kill(::getppid(), SIGXCPU); });
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(1);
}

}  // namespace sluice
