// The door of a run, where replicas call that join it.
#include "experiments/runs/processes/door.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/ranks/note.h"
#include "lib/base/messages/bell.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::door_test {

class DoorOfARun : public Program {
 protected:
  template <class Done>
  static bool comes(const Done& done) {
    for (int n = 0; n < 2000; ++n) {
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool has_note() const {
    return comes([&] { return std::filesystem::exists(door_of_run(folder_)); });
  }

  const Experiment experiment_ = read_experiment(
      parse_toml("engine = 'processes'\nbatch_size = 8\nturns = 8\nblocks = 1\n"
                 "schedule = 'free'\ndata = {train = 80, test = 40}\n"
                 "replicas = {count = 3, start_with = 2, policy = 'server'}\n",
                 "test.toml"),
      "");
  Door door_{experiment_, folder_, "", make_secret()};
};

// Each time, who took the note never called.
TEST_F(DoorOfARun, IsOpenAgainAfterOneThatDidNotCome) {
  door_.ring(std::make_shared<Bell>());
  for (int times = 0; times < 3; ++times) {
    door_.offer(3);
    ASSERT_TRUE(has_note()) << times;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(take_note(door_of_run(folder_))) << times;
    door_.dismiss();
    std::optional<NewcomerNews> news;
    ASSERT_TRUE(comes([&] { return (news = door_.next()).has_value(); }));
    EXPECT_EQ(news->kind, NewcomerNews::Kind::missing);
  }
}

}  // namespace sluice::door_test
