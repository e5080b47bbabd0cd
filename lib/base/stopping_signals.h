#pragma once

#include <csignal>
#include <span>

namespace sluice {

/// Signals that stop a run with a checkpoint: SIGINT and SIGTERM; and SIGHUP,
/// SIGUSR1, SIGUSR2 and SIGXCPU, which schedulers, limits and closed terminals
/// send, except those that this process was started to ignore (nohup).
sigset_t stopping_signals();

/// The last four of stopping_signals(): those that schedulers send.
std::span<const int> requests_of_schedulers();

/// Notes which of these signals the program was started to ignore: for its
/// preinit_array, before the libraries that it loads install handlers.
void note_ignored_signals();
/// Ignores those signals again.
void ignore_noted_signals();

/// Whether a second one ends the process at once: SIGINT and SIGTERM. The
/// others may come again by themselves: SIGXCPU comes every second.
bool is_urgent(int signal);

/// While it lives, a reader of a pipe that went away is an error of write(),
/// not the end of this process. Programs that it starts don't inherit this.
class PipeErrors {
 public:
  PipeErrors();
  ~PipeErrors();
  PipeErrors(const PipeErrors&) = delete;
  PipeErrors& operator=(const PipeErrors&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace sluice
