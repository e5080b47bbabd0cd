#include "lib/base/early_exit.h"

#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::early_exit_test {

constexpr const char* kLine = "prog: this process was ended by a call of exit";

TEST(EarlyExit, EarlyExitOfStatusZeroIsAFailureFromAnyCaller) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto watched = [](auto leave) {
    watch_for_early_exit("prog");
    leave();
  };
  const testing::ExitedWithCode failed(1);
  EXPECT_EXIT(watched([] { std::exit(0); }), failed, kLine);
  EXPECT_EXIT(watched([] { std::quick_exit(0); }), failed, kLine);
  EXPECT_EXIT(watched([] { ::_exit(0); }), failed, kLine);
  EXPECT_EXIT(watched([] { std::_Exit(0); }), failed, kLine);
  EXPECT_EXIT(watched([] { std::thread([] { std::exit(0); }).join(); }), failed,
              kLine);
  EXPECT_EXIT(watched([] { std::exit(5); }), testing::ExitedWithCode(5), kLine);
}

TEST(EarlyExit, IsNoneAfterTheEndNorOfAForkedProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        watch_for_early_exit("prog");
        std::exit(reached_end(0));
      },
      testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(
      {
        watch_for_early_exit("prog");
        if (::fork() == 0) std::exit(0);
        int status = -1;
        ::wait(&status);
        std::exit(reached_end(status));
      },
      testing::ExitedWithCode(0), "^$");
}

}  // namespace sluice::early_exit_test
