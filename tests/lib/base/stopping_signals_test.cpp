#include "lib/base/stopping_signals.h"

#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::stopping_signals_test {

bool has(const sigset_t& set, int signal) {
  return sigismember(&set, signal) == 1;
}

TEST(StoppingSignals, AreThoseOfTerminalsSchedulersAndLimits) {
  const sigset_t set = stopping_signals();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU})
    EXPECT_TRUE(has(set, signal)) << signal;
  for (const int signal : {SIGKILL, SIGSEGV, SIGCHLD, SIGPIPE, SIGCONT})
    EXPECT_FALSE(has(set, signal)) << signal;
}

// `nohup` starts a process so.
TEST(StoppingSignals, ThatAreIgnoredStayIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  EXPECT_FALSE(has(stopping_signals(), SIGHUP));
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(has(stopping_signals(), SIGHUP));
  std::signal(SIGHUP, before);
}

TEST(StoppingSignals, EndAProcessAtOnceOnlyWherePeopleSendThem) {
  EXPECT_TRUE(is_urgent(SIGINT));
  EXPECT_TRUE(is_urgent(SIGTERM));
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
    EXPECT_FALSE(is_urgent(signal));
}

TEST(PipeErrors, AreErrorsOfWriteAndNotTheEnd) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  {
    const PipeErrors errors;
    EXPECT_EQ(::write(ends[1], "a", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  EXPECT_EXIT(
      {
        std::signal(SIGPIPE, SIG_DFL);
        { const PipeErrors errors; }
        if (::write(ends[1], "a", 1) < 0) ::_exit(3);
      },
      testing::KilledBySignal(SIGPIPE), "");
  ::close(ends[1]);
}

}  // namespace sluice::stopping_signals_test
