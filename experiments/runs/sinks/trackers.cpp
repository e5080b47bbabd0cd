#include "experiments/runs/sinks/trackers.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/runs/folder/child_run.h"
#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

using TrackerClock = std::chrono::steady_clock;

/// Time for a tracker to log the rest when the run is over, perhaps over a
/// network.
constexpr std::chrono::seconds kTrackerPatience(60);
constexpr std::chrono::milliseconds kTrackerGrace(500);
constexpr std::string_view kNeedsNone = "tensorboard";

std::string python_of_trackers() {
  const char* const named =
      std::getenv("SLUICE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  return named == nullptr || *named == '\0' ? "python3" : named;
}

/// The last line that says something, without the name that it begins with.
std::string tracker_complaint(const std::string& text) {
  constexpr std::string_view kOwnName = "sluice: ";
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  if (last.starts_with(kOwnName)) last.erase(0, kOwnName.size());
  return last;
}

/// The ends of a pipe that no other child inherits; -1: there is none.
struct TrackerPipe {
  int read = -1;
  int write = -1;

  TrackerPipe() {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    read = ends[0];
    write = ends[1];
  }
  ~TrackerPipe() {
    close(read);
    close(write);
  }
  TrackerPipe(const TrackerPipe&) = delete;
  TrackerPipe& operator=(const TrackerPipe&) = delete;

  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

/// Starts argv with these streams, in a process group of its own: Ctrl-C
/// reaches the run alone. 0, or why not.
int start_tracker(const std::vector<std::string>& argv, int input, int errors,
                  pid_t& pid) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  sigset_t none;  // is blocked, whatever is here
  ::sigemptyset(&none);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int failed = ::posix_spawnp(&pid, argv[0].c_str(), &files, &attributes,
                                    pointers_to(argv).data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return failed;
}

}  // namespace

class Trackers::Process {
 public:
  Process(std::string name, std::string folder)
      : name_(std::move(name)), folder_(std::move(folder)) {
    const std::string python = python_of_trackers();
    const std::vector<std::string> argv = {python, "-m",    "sluice.track",
                                           name_,  folder_, "--until-eof"};
    const int failed =
        input_.read < 0
            ? errno
            : start_tracker(argv, input_.read, errors_.descriptor(), pid_);
    TrackerPipe::close(input_.read);
    is_running_ = failed == 0;
    if (!is_running_)
      warn(fmt::format("{} can't be started: {}", python,
                       std::generic_category().message(failed)));
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Closes the tracker's input, by which it sees that the run is over.
  void close_input() { TrackerPipe::close(input_.write); }

  /// Reports a tracker that has failed, once.
  void look() {
    int status = 0;
    if (!is_running_) return;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return;
    is_running_ = false;
    const bool is_good =
        ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (is_good) return;
    const std::string complaint = tracker_complaint(errors_.text());
    warn(complaint.empty() ? "it failed and didn't say why" : complaint);
  }

 private:
  void end() {
    close_input();
    if (!is_ended_within(kTrackerPatience)) {
      warn(fmt::format("it still had to tell something {} s after the end",
                       kTrackerPatience.count()));
      ::kill(-pid_, SIGTERM);
      is_silent_ = true;
    }
    if (is_ended_within(kTrackerGrace)) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  bool is_ended_within(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds kLook(5);
    const auto until = TrackerClock::now() + time;
    for (look(); is_running_ && TrackerClock::now() < until; look())
      std::this_thread::sleep_for(kLook);
    return !is_running_;
  }

  void warn(const std::string& text) const {
    if (is_silent_) return;
    say("sluice: logger {}: {}; to tell it of this run later: python3 "
        "-m sluice.track {} {} (pip install ./python; SLUICE_PYTHON "
        "names another Python)\n",
        name_, text, name_, folder_);
  }

  const std::string name_;
  const std::string folder_;
  TrackerPipe input_;
  MemoryFile errors_;
  pid_t pid_ = -1;
  bool is_running_ = false;
  bool is_silent_ = false;
};

Trackers::Trackers(const std::vector<std::string>& names,
                   const std::string& folder) {
  for (const std::string& name : names)
    if (name != kNeedsNone)
      processes_.push_back(std::make_unique<Process>(name, folder));
}

Trackers::~Trackers() {
  for (const auto& process : processes_) process->close_input();
}

void Trackers::write(const Record& /*record*/) {
  constexpr std::chrono::seconds kBetweenLooks(1);
  const auto now = TrackerClock::now();
  if (now - looked_ < kBetweenLooks) return;
  looked_ = now;
  for (const auto& process : processes_) process->look();
}

}  // namespace sluice
