#include "lib/engines/child_processes.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::child_processes_test {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A child that ends well only when it reads that text, and no more.
void expect_read(const std::string& text, const std::string& input) {
  ChildProcesses children;
  children.start(1, {{"/bin/sh", "-c", "test \"$(cat)\" = '" + text + "'"}},
                 input);
  children.wait(60s);
  children.check();
}

TEST(ChildProcess, ReadsItsInputAndThenItsEnd) {
  EXPECT_NO_THROW(expect_read("hello", "hello\n"));
}

TEST(ChildProcess, ReadsNoOtherInput) {
  EXPECT_THROW(expect_read("hello", "goodbye\n"), LinkError);
}

TEST(ChildProcess, EachReadsAnInputOfItsOwn) {
  ChildProcesses children;
  const ChildCommand command{{"/bin/sh", "-c", "test \"$(cat)\" = hello"}};
  children.start(1, command, "hello");
  children.start(2, command, "hello");
  children.wait(60s);
  EXPECT_NO_THROW(children.check());
}

TEST(ChildProcess, HasTheNameAndTheVariablesThatItIsGiven) {
  ChildProcesses children;
  children.start(1, {.arguments = {"worker", "-c",
                                   "test $0 = worker && test $ROLE = below"},
                     .file = "/bin/sh",
                     .environment = {"ROLE=below"}});
  children.wait(60s);
  EXPECT_NO_THROW(children.check());
}

TEST(ChildProcess, WithTooMuchInputIsABug) {
  ChildProcesses children;
  EXPECT_THROW(children.start(1, {{"/bin/true"}}, std::string(4097, 'x')),
               InternalError);
}

// A coordinator that ended workers which were slow to leave, on a busy machine,
// called that their failure.
TEST(ChildProcess, ThatIsSlowToLeaveIsEndedAndNotCalledLost) {
  ChildProcesses children;
  children.start(1, {{"/bin/sleep", "60"}});
  EXPECT_FALSE(children.wait(1ms));
}

TEST(ChildProcess, ThatSomebodyElseKilledIsCalledLost) {
  ChildProcesses children;
  children.start(7, {{"/bin/sh", "-c", "kill -9 $$"}});
  const auto lost = children.wait(60s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->block(), 7);
  EXPECT_THAT(lost->what(), HasSubstr("of block 7 was ended by signal 9"));
}

TEST(ChildProcess, ThatEndsWithAnErrorIsFoundByACheck) {
  ChildProcesses children;
  children.start(2, {{"/bin/false"}});
  children.wait(60s);
  EXPECT_THAT(
      [&] { children.check(); },
      ThrowsMessage<WorkerLostError>(HasSubstr("of block 2 ended with")));
}

}  // namespace sluice::child_processes_test
