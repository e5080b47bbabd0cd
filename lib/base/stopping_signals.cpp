#include "lib/base/stopping_signals.h"

#include <initializer_list>

namespace sluice {
namespace {

constexpr int kRequests[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

sigset_t noted;  // empty where nothing was noted: it is zero then

bool is_ignored(int signal) {
  struct sigaction now = {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
  for (const int signal : kRequests)
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

std::span<const int> requests_of_schedulers() {
  return kRequests;
}

void note_ignored_signals() {
  for (const int signal : kRequests)
    if (is_ignored(signal)) sigaddset(&noted, signal);
}

void ignore_noted_signals() {
  for (const int signal : kRequests)
    if (sigismember(&noted, signal) == 1) std::signal(signal, SIG_IGN);
}

bool is_urgent(int signal) {
  return signal == SIGINT || signal == SIGTERM;
}

PipeErrors::PipeErrors() {
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};  // exec() makes it the default again
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, nullptr, &before_);
  if (before_.sa_handler != SIG_IGN) ::sigaction(SIGPIPE, &nothing, nullptr);
}

PipeErrors::~PipeErrors() {
  ::sigaction(SIGPIPE, &before_, nullptr);
}

}  // namespace sluice
