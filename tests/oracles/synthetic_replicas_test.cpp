// Replicas whose blocks have synthesizers and input models, against plain
// autograd and SGD.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_synthetic.h"

namespace sluice::synthetic_replicas_test {

using replica_runs::trained;

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n"
    "optimizer = {lr = 0.05}\n";
constexpr const char* kUnlock =
    ", unlock = {hidden = 0, optimizer = {name = 'sgd', lr = 0.001}}";
constexpr double kApart = 1e-5;

std::string dni(const std::string& more = "") {
  return "boundary = {policy = 'synthetic_gradient', synthesizer = {hidden = "
         "1, width = 16}" +
         more + "}\n";
}

std::string replicas(int count, const std::string& more = "") {
  return fmt::format("replicas = {{count = {}{}}}\n", count, more);
}

NamedTensors only(const NamedTensors& all, const std::string& prefix) {
  NamedTensors chosen;
  for (const auto& named : all)
    if (named.first.starts_with(prefix)) chosen.push_back(named);
  return chosen;
}

struct Ends {
  std::string boundary;
  SyntheticOptions options;
};

std::vector<Ends> kinds_of_ends() {
  return {{dni(), {}},
          {dni(", lam_target = 0.5"), {.lam_target = 0.5}},
          {dni(kUnlock), {.unlocked = true}}};
}

TEST(SyntheticReplicas, SumTheGradientsOfEachLesson) {
  for (const auto& [boundary, options] : kinds_of_ends())
    for (const int count : {2, 3}) {
      const std::string lines = kNet + boundary + replicas(count);
      const NamedTensors expected = plain_synthetic(lines, options);
      for (const NamedTensors& replica : trained(lines))
        EXPECT_EQ(difference(replica, expected), "") << count << boundary;
      const NamedTensors one = trained(kNet + boundary)[0];
      for (const char* kind : {"layers.", "synthesizers."})
        EXPECT_GT(distance(only(expected, kind), one), kApart) << kind;
    }
}

// An average comes before the lesson, which each takes by itself.
TEST(SyntheticReplicas, AverageWhatLearnsAtBoundariesWithTheWeights) {
  for (auto [boundary, options] : kinds_of_ends())
    for (const int count : {2, 3}) {
      const std::string lines =
          kNet + boundary + replicas(count, ", policy = 'average', every = 1");
      options.averages = true;
      const auto all = trained(lines);
      EXPECT_EQ(difference(all[0], plain_synthetic(lines, options)), "")
          << count << boundary;
      EXPECT_EQ(difference(only(all[0], "layers."), only(all[1], "layers.")),
                "");
      EXPECT_GT(distance(only(all[0], "synthesizers."), all[1]), 0);
      options.averages = false;
      EXPECT_GT(distance(all[0], plain_synthetic(lines, options)), kApart);
    }
}

/// All batches are the same sample.
TEST(SyntheticReplicas, SyntheticReplicasOfTheSameShareHaveTheBitsOfOne) {
  for (const auto& [boundary, options] : kinds_of_ends()) {
    const std::string net = kNet + boundary +
                            "batch_size = 1\nturns = 8\n"
                            "data = {train = 1, test = 16}\n";
    const NamedTensors one = trained(net)[0];
    for (const char* policy : {"'all_reduce'", "'all_reduce', shard = true",
                               "'average', every = 2", "'gossip'"})
      for (const NamedTensors& replica :
           trained(net + replicas(2, fmt::format(", policy = {}", policy))))
        EXPECT_EQ(difference(replica, one), "") << policy << boundary;
  }
}

TEST(SyntheticReplicas, SumThoseOfLessonsThatComeATurnLater) {
  const std::string lines = kNet + dni(", target_delay = 1") + replicas(2);
  const auto all = trained(lines);
  EXPECT_EQ(difference(all[0], all[1]), "");
  EXPECT_GT(distance(all[0], trained(kNet + dni() + replicas(2))[0]), kApart);
}

}  // namespace sluice::synthetic_replicas_test
