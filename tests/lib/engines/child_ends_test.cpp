// How the ends of worker processes are found: also in a process that ignores
// SIGCHLD, also before the workers have joined. Issue 18, items 8 and 11.
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/messages/peer_missing.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/process_crew.h"

namespace sluice::child_ends_test {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ChildEnd, BeforeItHasJoinedIsALossHoweverWell) {
  ChildProcesses children;
  children.start(3, {{"/bin/true"}});
  children.wait(60s);
  EXPECT_NO_THROW(children.check());
  EXPECT_THAT([&] { children.check_joining(); },
              ThrowsMessage<WorkerLostError>(
                  HasSubstr("of block 3 ended with status 0")));
}

/// While it lives, this process ignores SIGCHLD.
class IgnoredSigchld {
 public:
  IgnoredSigchld() : before_(std::signal(SIGCHLD, SIG_IGN)) {}
  ~IgnoredSigchld() { std::signal(SIGCHLD, before_); }
  IgnoredSigchld(const IgnoredSigchld&) = delete;
  IgnoredSigchld& operator=(const IgnoredSigchld&) = delete;

 private:
  void (*before_)(int);
};

TEST(ChildEnd, IsFoundWhereSigchldIsIgnored) {
  const IgnoredSigchld ignored;
  ChildProcesses children;
  children.start(2, {{"/bin/false"}});
  children.wait(60s);
  EXPECT_THAT([&] { children.check_joining(); },
              ThrowsMessage<WorkerLostError>(
                  AllOf(HasSubstr("of block 2 ended"), HasSubstr("SIGCHLD"))));
}

TEST(ChildEnd, ChildEndOfOneThatHoldsSignalsComesByItsLauncherOnly) {
  ChildProcesses children;
  children.start(1, {{"/bin/sh", "-c", "kill -TERM $$; kill -INT $$; exit 0"}});
  EXPECT_FALSE(children.wait(60s));
}

/// Waits until that block is found stopped.
bool is_found_stopped(ChildProcesses& children, int block) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (children.stopped() == block) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(StoppedChild, IsFoundAndNamedWhenItDoesNotCome) {
  ChildProcesses children;
  children.start(1, {{"/bin/sleep", "60"}});
  EXPECT_EQ(children.stopped(), 0);
  children.start(2, {{"/bin/sh", "-c", "kill -STOP $$"}});
  EXPECT_TRUE(is_found_stopped(children, 2));
}

TEST(StoppedChild, ThatDoesNotJoinIsLostAfterTheDeadline) {
  const ProcessHooks hooks{
      .command =
          [](int) {
            return ChildCommand{{"/bin/sh", "-c", "kill -STOP $$"}};
          },
      .input = "",
      .meet = [](const std::function<void()>& check) -> std::vector<Link> {
        for (int tries = 0; tries < 6000; ++tries) {
          check();
          std::this_thread::sleep_for(10ms);
        }
        return {};
      },
      .deadline = 200ms};
  EXPECT_THAT([&] { make_process_crew(1, hooks, {}); },
              ThrowsMessage<WorkerLostError>(
                  AllOf(HasSubstr("the worker process"),
                        HasSubstr("of block 1 has not joined the others: it is "
                                  "stopped"))));
}

TEST(MissingChild, IsNamedWithItsProcess) {
  const ProcessHooks hooks{
      .command =
          [](int) {
            return ChildCommand{{"/bin/sleep", "60"}};
          },
      .input = "",
      .meet = [](const std::function<void()>&) -> std::vector<Link> {
        throw PeerMissingError(1, "block 1 did not come in time");
      }};
  EXPECT_THAT([&] { make_process_crew(1, hooks, {}); },
              ThrowsMessage<WorkerLostError>(
                  AllOf(HasSubstr("the worker process"),
                        HasSubstr("of block 1 has not joined the others (block "
                                  "1 did not come in time)"))));
}

}  // namespace sluice::child_ends_test
