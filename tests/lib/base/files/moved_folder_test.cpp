#include "lib/base/files/moved_folder.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice::base_moved_folder_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class WorkWhileMoved : public testing::Test {
 protected:
  WorkWhileMoved() { fs::create_directory(run()); }
  std::string run() const { return folder_.path() + "/run"; }
  std::string elsewhere() const { return folder_.path() + "/elsewhere"; }
  void move() const { fs::rename(run(), elsewhere()); }
  void link() const { fs::create_directory_symlink(elsewhere(), run()); }
  void write_file() const {
    write_file_atomically(run() + "/file", [](std::ostream&) {});
  }

  TemporaryFolder folder_;
};

TEST_F(WorkWhileMoved, WaitsForTheLinkToWhereTheFolderHasGone) {
  move();
  const std::jthread follower([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    link();
  });
  work_while_moved(run(), [&] { write_file(); });
  EXPECT_TRUE(fs::exists(elsewhere() + "/file"));
}

TEST_F(WorkWhileMoved, WritesAgainWhatAMoveHasInterrupted) {
  std::jthread follower;
  int calls = 0;
  work_while_moved(run(), [&] {
    if (++calls == 1) {
      move();
      follower = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        link();
      });
    }
    write_file();
  });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(fs::exists(elsewhere() + "/file"));
}

TEST_F(WorkWhileMoved, ThrowsAnErrorThatNoMoveExplains) {
  int calls = 0;
  EXPECT_THAT(([&] {
                work_while_moved(run(), [&] {
                  ++calls;
                  throw UserError("the disk is full");
                });
              }),
              ThrowsMessage<UserError>(HasSubstr("the disk is full")));
  EXPECT_EQ(calls, 1);
}

}  // namespace sluice::base_moved_folder_test
