// The records of a run, read while it writes them.
#include "experiments/runs/folder/run_reader.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/metrics/records.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::run_reader_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Reader : public Program {
 protected:
  void append(const std::string& text) const {
    std::ofstream(path("metrics.jsonl"), std::ios::app) << text;
  }
  static std::string phase(int number) {
    return to_json(records::Phase{.turn = std::int64_t{10} * number,
                                  .phase = number}) +
           "\n";
  }
  static std::vector<std::int64_t> phases(RunReader& reader) {
    std::vector<std::int64_t> numbers;
    for (const auto& phase : reader.next<records::Phase>())
      numbers.push_back(phase.phase);
    return numbers;
  }
  static int lines(RunReader& reader) {
    int count = 0;
    reader.read([&](const Record&) { ++count; });
    return count;
  }
};

TEST_F(Reader, FindsNothingWhereThereIsNoFile) {
  RunReader reader(folder_);
  EXPECT_EQ(lines(reader), 0);
}

TEST_F(Reader, GoesOnWhereItStopped) {
  RunReader reader(folder_);
  append(phase(1) + "{\"kind\":\"train\"}\n");
  EXPECT_THAT(phases(reader), ElementsAre(1));
  append(phase(2));
  EXPECT_THAT(phases(reader), ElementsAre(2));
  EXPECT_THAT(phases(reader), ElementsAre());
}

TEST_F(Reader, LeavesHalfALineUntilItIsWhole) {
  RunReader reader(folder_);
  append(phase(1) + "{\"kind\":");
  EXPECT_THAT(phases(reader), ElementsAre(1));
  EXPECT_FALSE(reader.is_whole());
  append("\"phase\",\"phase\":2}\n");
  EXPECT_THAT(phases(reader), ElementsAre(2));
  EXPECT_TRUE(reader.is_whole());
}

TEST_F(Reader, BeginsAgainWithAFileThatWasReplaced) {
  RunReader reader(folder_);
  append(phase(1) + phase(2));
  EXPECT_EQ(lines(reader), 2);
  fs::rename(path("metrics.jsonl"), path("before"));
  append(phase(1));
  EXPECT_THAT(phases(reader), ElementsAre(1));
}

TEST_F(Reader, NamesALineThatIsDamagedAndWhatToDo) {
  append(phase(1) + "{\"kind\":\n" + phase(2));
  RunReader reader(folder_);
  EXPECT_THAT([&] { lines(reader); },
              testing::ThrowsMessage<UserError>(
                  testing::AllOf(HasSubstr("/metrics.jsonl:2: is damaged"),
                                 HasSubstr("--overwrite"))));
}

TEST_F(Reader, StopsAtADamagedLineOfAnyKind) {
  append(phase(1) + "{\"kind\":\"ph\x01se\",\"phase\":2}\n");
  RunReader reader(folder_);
  EXPECT_THROW(phases(reader), UserError);
}

TEST_F(Reader, PassesOverKindsThatItDoesNotKnow) {
  append("{\"kind\":\"weather\",\"rain\":true}\n" + phase(1));
  RunReader reader(folder_);
  EXPECT_THAT(phases(reader), ElementsAre(1));
}

}  // namespace sluice::run_reader_test
