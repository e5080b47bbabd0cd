#include "experiments/runs/ranks/rank.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace sluice::rank_test {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](
             const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::optional<Rank> rank_in(Variables variables) {
  return rank_from(environment_of(std::move(variables)));
}

const Variables kMpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"PMIX_NAMESPACE", "12345.0"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

TEST(Rank, ProcessOnItsOwnIsNoRank) {
  EXPECT_FALSE(rank_in({}).has_value());
  EXPECT_FALSE(rank_in({{"HOME", "/root"}, {"MASTER_ADDR", "a"}}).has_value());
}

TEST(Rank, OnlyProcessIsNoRank) {
  EXPECT_FALSE(rank_in(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"},
                                      {"OMPI_COMM_WORLD_SIZE", "1"}}))
                   .has_value());
}

TEST(Rank, IsReadFromOpenMpi) {
  const auto rank = rank_in(kMpirun);
  ASSERT_TRUE(rank.has_value());
  EXPECT_EQ(rank->starter, "mpirun");
  EXPECT_EQ(rank->number, 2);
  EXPECT_EQ(rank->count, 4);
  EXPECT_EQ(rank->job, "mpirun-12345-0-");
  EXPECT_TRUE(rank->one_host);
}

TEST(Rank, RankOfOpenMpiIsOnSeveralHostsWhenNotAllAreHere) {
  EXPECT_FALSE(
      rank_in(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}))->one_host);
}

TEST(Rank, IsReadFromSlurm) {
  const auto rank = rank_in({{"SLURM_PROCID", "1"},
                             {"SLURM_STEP_NUM_TASKS", "3"},
                             {"SLURM_STEP_NUM_NODES", "1"},
                             {"SLURM_JOB_ID", "77"},
                             {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(rank.has_value());
  EXPECT_EQ(rank->starter, "srun");
  EXPECT_EQ(rank->number, 1);
  EXPECT_EQ(rank->count, 3);
  EXPECT_EQ(rank->job, "srun-77-0");
  EXPECT_TRUE(rank->one_host);
}

TEST(Rank, BatchScriptIsNoRank) {
  // sbatch sets these for the one process that the script is.
  EXPECT_FALSE(rank_in({{"SLURM_PROCID", "0"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_JOB_ID", "77"}})
                   .has_value());
}

TEST(Rank, IsReadFromTorchrun) {
  const auto rank = rank_in({{"RANK", "1"},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_WORLD_SIZE", "1"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(rank.has_value());
  EXPECT_EQ(rank->starter, "torchrun");
  EXPECT_EQ(rank->number, 1);
  EXPECT_FALSE(rank->one_host);
  EXPECT_EQ(rank->master, "10.0.0.1:29500");
}

TEST(Rank, LeavesTorchrunsOwnPortAlone) {
  EXPECT_EQ(rank_in({{"RANK", "1"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "::1"},
                     {"MASTER_PORT", "29500"},
                     {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
                ->master,
            "[::1]:29501");
}

TEST(Rank, WithALoopbackMasterIsOnOneHost) {
  const Variables variables = {{"RANK", "0"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "29500"}};
  EXPECT_TRUE(rank_in(variables)->one_host);
  EXPECT_FALSE(
      rank_in(with(variables, {{"MASTER_ADDR", "10.0.0.1"}}))->one_host);
}

TEST(Rank, TakesAnAddressOfIpv6WithBracketsOrWithout) {
  const Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  const auto loopback = rank_in(with(variables, {{"MASTER_ADDR", "[::1]"}}));
  EXPECT_TRUE(loopback->one_host);
  EXPECT_EQ(loopback->master, "[::1]:29500");
  EXPECT_EQ(rank_in(with(variables, {{"MASTER_ADDR", "[fe80::2]"}}))->master,
            "[fe80::2]:29500");
}

TEST(Rank, OnOneHostWantsNoPort) {
  const Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}};
  EXPECT_TRUE(
      rank_in(with(variables, {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "0"}}))
          ->one_host);
}

/// By which a rank takes a GPU of its host.
TEST(Rank, HasTheNumberOnItsHostThatItsStarterGivesIt) {
  const Variables slurm = {{"SLURM_PROCID", "9"},
                           {"SLURM_STEP_NUM_TASKS", "32"},
                           {"SLURM_STEP_NUM_NODES", "4"},
                           {"SLURM_LOCALID", "2"}};
  const Variables torchrun = {
      {"RANK", "9"}, {"WORLD_SIZE", "32"}, {"LOCAL_RANK", "1"}};
  const Variables mpich = {
      {"PMI_RANK", "9"}, {"PMI_SIZE", "32"}, {"MPI_LOCALRANKID", "5"}};
  EXPECT_EQ(rank_in(slurm)->local, 2);
  EXPECT_EQ(rank_in(torchrun)->local, 1);
  EXPECT_EQ(rank_in(mpich)->local, 5);
  EXPECT_EQ(
      rank_in(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}))->local, 0);
}

TEST(Rank, WithoutSuchANumberTakesItsOwn) {
  EXPECT_EQ(rank_in(kMpirun)->local, 2);
}

}  // namespace sluice::rank_test
