// What a run says of itself while it goes.
#include "experiments/runs/sinks/status_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/base/files/read_file.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::status_file_test {

class Kinds final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.is<records::LostReplica>()) ++lost;
  }
  int lost = 0;
};

records::Status status_of(int replica, std::int64_t turn) {
  records::Status status;
  status.block = 1;
  status.replica = replica;
  status.turn = turn;
  return status;
}

std::vector<int> replicas_in(const std::string& folder) {
  const auto json = nlohmann::json::parse(
      read_file(status_of_run(folder), std::uint64_t{1} << 20));
  std::vector<int> replicas;
  for (const auto& block : json.at("blocks"))
    replicas.push_back(block.at("replica").get<int>());
  return replicas;
}

// Else the slowest would be one that is dead, and its pace the run's.
TEST(StatusFile, LeavesOutAReplicaThatIsLost) {
  const TemporaryFolder folder;
  const Experiment experiment = small_experiment(
      "blocks = 1\nschedule = 'free'\n"
      "replicas = {count = 3, policy = 'all_reduce', backup = 1}\n");
  const auto next = std::make_shared<Kinds>();
  StatusFile file(experiment, folder.path(), next);
  for (const int replica : {1, 2, 3}) file.write(status_of(replica, 4));
  file.finish("running");
  EXPECT_EQ(replicas_in(folder.path()), (std::vector<int>{1, 2, 3}));
  file.write(records::LostReplica{.turn = 4, .replica = 2});
  file.write(status_of(1, 6));
  file.finish("running");
  EXPECT_EQ(replicas_in(folder.path()), (std::vector<int>{1, 3}));
  EXPECT_EQ(next->lost, 1);
}

}  // namespace sluice::status_file_test
