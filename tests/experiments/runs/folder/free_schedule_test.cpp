// The record of blocks that ran free: what is kept of it when a run goes back
// to a checkpoint.
#include "experiments/runs/folder/free_schedule.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::free_schedule_test {

Record actions(int block, std::int64_t phase, const std::string& text) {
  Record record;
  record.set("kind", "actions");
  record.set("block", std::int64_t{block});
  record.set("phase", phase);
  record.set("actions", text);
  return record;
}

Record told(const std::string& kind, int block, std::int64_t batch) {
  Record record;
  record.set("kind", kind);
  record.set("block", std::int64_t{block});
  record.set("batch", batch);
  return record;
}

class NoSink final : public Sink {
 public:
  void write(const Record& /*record*/) override {}
};

class RecordOfSchedule : public Program {
 protected:
  /// Record of two blocks, the first of which is ahead.
  ScheduleRecord recorded() const {
    ScheduleRecord record(2, nullptr);
    record.write(actions(1, 0, "F0 F1 B0 U0 C2"));
    record.write(actions(1, 0, "B1 U1 F2 B2 U2 C12"));
    record.write(actions(1, 1, "F3"));
    record.write(actions(1, 1, "B3 U3"));
    record.write(actions(2, 0, "F0 B0 U0 F1 B1 U1 C2"));
    return record;
  }
  std::string text() const { return slurp(schedule_of_run(folder_)); }
};

TEST_F(RecordOfSchedule, SaysWhereAPhaseBegins) {
  recorded().save(folder_);
  EXPECT_EQ(text(),
            "F0 F1 B0 U0 C2 B1 U1 F2 B2 U2 C12 P1 F3 B3 U3\n"
            "F0 B0 U0 F1 B1 U1 C2\n");
}

TEST_F(RecordOfSchedule, IsSavedUpToACheckpoint) {
  recorded().save_until(2, folder_);
  EXPECT_EQ(text(), "F0 F1 B0 U0 C2\nF0 B0 U0 F1 B1 U1 C2\n");
  EXPECT_TRUE(is_recorded_until(2, 2, folder_));
  EXPECT_FALSE(is_recorded_until(2, 3, folder_));
  EXPECT_FALSE(is_recorded_until(12, 2, folder_));
  EXPECT_FALSE(is_recorded_until(1, 2, folder_));
}

TEST_F(RecordOfSchedule, IsCutBehindACheckpoint) {
  recorded().save(folder_);
  cut_schedule(2, folder_);
  EXPECT_EQ(text(), "F0 F1 B0 U0 C2\nF0 B0 U0 F1 B1 U1 C2\n");
}

TEST_F(RecordOfSchedule, GivesReplicasThatReturnTheCheckpointTheyBeginWith) {
  recorded().save(folder_);
  const ReturningReplicas second{{2}, 2};
  EXPECT_FALSE(is_recorded_until(12, 2, folder_));
  EXPECT_FALSE(is_recorded_until(12, 2, folder_, {{1}, 2}));
  EXPECT_TRUE(is_recorded_until(12, 2, folder_, second));
  cut_schedule(12, folder_, second);
  EXPECT_EQ(text(),
            "F0 F1 B0 U0 C2 B1 U1 F2 B2 U2 C12\n"
            "F0 B0 U0 F1 B1 U1 C2 C12\n");
  EXPECT_TRUE(is_recorded_until(12, 2, folder_));
}

TEST_F(RecordOfSchedule, LeavesOutWhatAReplicaDidThatJoinedAfterTheCheckpoint) {
  ScheduleRecord record(2, std::make_shared<NoSink>(), 2, 1);
  record.write(actions(1, 0, "F0 B0 U0 C2"));
  record.save_until(2, folder_);
  EXPECT_EQ(text(), "F0 B0 U0 C2\n\n") << "the second isn't there yet";
  record.write(records::JoinedReplica{.turn = 2, .replica = 2});
  record.write(actions(2, 0, "X2.8 S2.8<5 F3 B3 U3 C4"));
  record.write(actions(1, 0, "F2 B2 U2 C4"));
  record.save_until(2, folder_);
  EXPECT_EQ(text(), "F0 B0 U0 C2\n\n");
  record.save_until(4, folder_);
  cut_schedule(2, folder_, {{2}, 2});
  EXPECT_EQ(text(), "F0 B0 U0 C2\nC2\n");
}

TEST_F(RecordOfSchedule, HasOfAGrantWhatALostReplicaSaidBeforeItsEnd) {
  ScheduleRecord record(2, std::make_shared<NoSink>(), 2);
  const auto part = [&](int block, const std::string& text) {
    record.write(records::Actions{block, 0, text, 1});
  };
  record.write(actions(2, 0, "F0 B0"));
  part(1, "F1 B1 X1");
  part(2, "U0 F3 B3 X3");
  record.save(folder_);
  EXPECT_EQ(text(), "\nF0 B0\n") << "grants that are over alone";
  record.write(records::LostReplica{.replica = 2});
  record.write(actions(1, 0, "S1<2 F2"));
  record.save(folder_);
  EXPECT_EQ(text(), "F1 B1 X1 S1<2 F2\nF0 B0 U0 F3 B3 X3\n");
}

TEST_F(RecordOfSchedule, GoesWithTheRunThatBeginsAnew) {
  cut_schedule(2, folder_);  // there is none yet
  recorded().save(folder_);
  cut_schedule(std::nullopt, folder_);
  EXPECT_FALSE(std::filesystem::exists(schedule_of_run(folder_)));
}

TEST_F(RecordOfSchedule, GoesOnWhereItWasCut) {
  recorded().save_until(2, folder_);
  ScheduleRecord record(2, nullptr);
  record.recall(folder_);
  record.write(actions(1, 1, "F2"));
  record.write(actions(2, 0, "F2"));
  record.save(folder_);
  EXPECT_EQ(text(), "F0 F1 B0 U0 C2 P1 F2\nF0 B0 U0 F1 B1 U1 C2 F2\n");
  ScheduleRecord again(2, nullptr);
  again.recall(folder_);
  again.write(actions(1, 1, "B2"));
  again.save(folder_);
  EXPECT_EQ(text(), "F0 F1 B0 U0 C2 P1 F2 B2\nF0 B0 U0 F1 B1 U1 C2 F2\n");
  EXPECT_THROW(ScheduleRecord(3, nullptr).recall(folder_), UserError);
}

TEST_F(RecordOfSchedule, TellsRecordsOfWhatIsUndone) {
  recorded().save_until(2, folder_);
  std::vector<Record> records = {
      told("train", 1, 0),  told("train", 1, 1),   told("hash", 1, 1),
      told("train", 2, 1),  told("probe", 1, 1),   told("lesson", 2, 0),
      told("phase", 1, 99), told("restart", 2, 9), told("layer_probe", 1, 1)};
  leave_out_undone(folder_, 1, records);
  std::string kept;
  for (const Record& record : records) kept += record.text("kind") + " ";
  EXPECT_EQ(kept, "train train phase restart ");
}

}  // namespace sluice::free_schedule_test
