// A run's folder that is moved, removed or replaced while the run works there.
// Issue 55, item 13: it was made anew in the old place, without its config.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/checkpoints/checkpoint_keeper.h"
#include "experiments/runs/folder/followed_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/set_aside.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"

namespace sluice::moved_folder_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Both names at once, because the folder is also looked at by a thread of its
/// own.
void swap_names(const std::string& one, const std::string& other) {
  ASSERT_EQ(::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(),
                        RENAME_EXCHANGE),
            0);
}

class MovedFolder : public Program {
 protected:
  std::string make(const std::string& name) const {
    fs::create_directories(path(name));
    return path(name);
  }
  std::string read(const std::string& name) const { return slurp(path(name)); }
};

TEST_F(MovedFolder, IsWrittenWhereItIsThroughALinkUntilTheEnd) {
  const std::string given = make("runs/a");
  {
    FollowedFolder followed(given, [] { ADD_FAILURE() << "it is there"; });
    EXPECT_EQ(followed.path(), given);
    fs::rename(given, path("b"));
    followed.look();
    EXPECT_EQ(followed.path(), fs::canonical(path("b")));
    std::ofstream(given + "/file") << "text";
    EXPECT_EQ(read("b/file"), "text");
    fs::rename(path("b"), path("c"));  // once more
    followed.look();
    EXPECT_EQ(followed.path(), fs::canonical(path("c")));
    EXPECT_EQ(read("runs/a/file"), "text");
  }
  EXPECT_FALSE(fs::exists(fs::symlink_status(given)));
  EXPECT_EQ(read("c/file"), "text");
}

TEST_F(MovedFolder, WithTheFolderAboveItIsFollowedToo) {
  const std::string given = make("runs/a");
  {
    FollowedFolder followed(given + "/", [] { ADD_FAILURE(); });
    fs::rename(path("runs"), path("old"));
    followed.look();
    std::ofstream(given + "/file") << "text";
    EXPECT_EQ(read("old/a/file"), "text");
  }
  EXPECT_FALSE(fs::exists(path("runs")));  // the link's
}

TEST_F(MovedFolder, ThatComesBackIsTheFolderAsItWas) {
  const std::string given = make("a");
  FollowedFolder followed(given, [] { ADD_FAILURE(); });
  fs::rename(given, path("b"));
  followed.look();
  swap_names(given, path("b"));
  followed.look();
  EXPECT_FALSE(fs::is_symlink(given));
  EXPECT_EQ(fs::canonical(followed.path()), fs::canonical(given));
}

TEST_F(MovedFolder, ThatIsRemovedIsToldOnce) {
  int told = 0;
  FollowedFolder followed(make("a"), [&] { ++told; });
  fs::remove_all(path("a"));
  followed.look();
  followed.look();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(fs::exists(path("a")));
}

TEST_F(MovedFolder, WhosePlaceAnotherOneHasTakenEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string given = path("a");
  EXPECT_EXIT(
      {
        make("a");
        make("b");
        FollowedFolder followed(given, [] {});
        swap_names(given, path("b"));
        followed.look();
        followed.look();
      },
      testing::ExitedWithCode(1), "To continue from its last checkpoint");
}

TEST_F(MovedFolder, MovedFolderOfARunThatIsGoneGetsNoCheckpoint) {
  try {
    save_block(path("gone/checkpoints"), 3, {1}, {}, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("isn't there any more"));
  }
  EXPECT_FALSE(fs::exists(path("gone")));
}

/// Moves a run's folder on and on, with a link to it a moment later.
class Mover {
 public:
  explicit Mover(std::string run)
      : run_(std::move(run)), thread_([this](const std::stop_token& over) {
          for (int moves = 1; !over.stop_requested(); ++moves) move(moves);
        }) {}

 private:
  void move(int moves) {
    constexpr std::chrono::milliseconds kMoment(3);
    const std::string next = run_ + "-" + std::to_string(moves);
    fs::rename(place_, next);
    place_ = next;
    std::this_thread::sleep_for(kMoment);
    fs::remove(run_);
    fs::create_directory_symlink(place_, run_);
    std::this_thread::sleep_for(kMoment);
  }

  std::string run_;
  std::string place_ = run_;
  std::jthread thread_;
};

TEST_F(MovedFolder, FolderThatMovesWhileItIsSavedToGetsEachCheckpoint) {
  constexpr int kCheckpoints = 10;
  const std::string checkpoints = make("run") + "/checkpoints";
  const at::Tensor weight = at::ones({1});
  {
    const Mover mover(path("run"));
    for (int turn = 0; turn < kCheckpoints; ++turn) {
      save_block(checkpoints, turn, {1}, {{"a", weight}}, {});
      finish_checkpoint(checkpoints, turn);
    }
  }
  EXPECT_EQ(find_checkpoints(checkpoints).size(), kCheckpoints);
}

TEST_F(MovedFolder, FolderThatMovesWhileItsCheckpointsAreKeptLosesNone) {
  constexpr int kCheckpoints = 20;
  const std::string checkpoints = make("run") + "/checkpoints";
  const auto weight_of = [](int turn) {
    const bool is_sound = turn % 3 != 0;
    return at::full({1}, is_sound ? 1.0 : std::nan(""));
  };
  CheckpointKeeper keeper(checkpoints, {.every = {1}, .last = 2});
  {
    const Mover mover(path("run"));
    for (int turn = 1; turn <= kCheckpoints; ++turn) {
      save_block(checkpoints, turn, {1}, {{"a", weight_of(turn)}}, {});
      EXPECT_EQ(keeper.saved(turn).not_finite.empty(), turn % 3 != 0) << turn;
    }
  }
  std::vector<std::int64_t> left;
  for (const auto& [turn, folder] : find_checkpoints(checkpoints))
    left.push_back(turn);
  EXPECT_THAT(left, ElementsAre(19, 20));
  EXPECT_TRUE(find_set_aside(checkpoints)->folder.ends_with("18.not-finite"));
}

class MovedRun : public Faults {};

TEST_F(MovedRun, EndsWhereItWasMovedToAndIsContinuedAsItAdvises) {
  const std::string line =
      std::string(SLUICE_PROGRAM) + " " +
      command("moved", "--inject 'slow block 1 x20;delay 1->2 50ms'");
  ProcessGroup group(line, path("output"));
  const auto has_saved = [&] {
    return !find_checkpoints(path("moved/checkpoints")).empty();
  };
  for (int tries = 0; tries < 3000 && !has_saved(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  fs::rename(path("moved"), path("ended"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  group.signal_leader(SIGUSR1);
  EXPECT_EQ(group.wait(), 0) << slurp(path("output"));
  const std::string text = slurp(path("output"));
  EXPECT_THAT(text, HasSubstr("To continue: sluice run --resume " +
                              fs::canonical(path("ended")).string()));
  EXPECT_FALSE(fs::exists(fs::symlink_status(path("moved")))) << text;
  const Outcome rest = sluice("run --resume " + path("ended"));
  ASSERT_EQ(rest.status, 0) << rest.text;
  expect_undisturbed("ended");
}

}  // namespace sluice::moved_folder_test
