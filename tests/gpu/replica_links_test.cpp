// What replicas on a GPU send are copies: a message may leave while the next
// update writes the weights that it was made of.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/replicas/groups/links.h"
#include "lib/tensors/device.h"
#include "lib/tensors/pack.h"

namespace sluice::replica_links_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

/// Keeps what is sent, as a link does whose thread hasn't come to it.
class LateSender final : public Sender {
 public:
  explicit LateSender(std::vector<Message>& kept) : kept_(kept) {}
  void send(Message message) override { kept_.push_back(std::move(message)); }
  bool ready() const override { return true; }
  void ring(std::shared_ptr<Bell>) override {}
  void close() override {}

 private:
  std::vector<Message>& kept_;
};

struct Way {
  std::string name;
  std::function<void(Group&, const Tensors&)> start;
};

struct Weights {
  std::string name;
  std::vector<c10::ScalarType> types;  ///< of each tensor
};

const std::vector<Way> kWays = {
    {"Sum", [](Group& group, const Tensors& mine) { group.start_sum(mine); }},
    {"Parts",
     [](Group& group, const Tensors& mine) { group.start_parts(mine); }},
    {"Gather",
     [](Group& group, const Tensors& mine) { group.start_gather(mine); }},
    {"Share", [](Group& group, const Tensors& mine) {
       group.start_share(mine, {.to = {2}, .from = {2}});
     }}};

const std::vector<Weights> kWeights = {
    {"OneTensor", {at::kFloat}},
    {"TwoTensors", {at::kFloat, at::kFloat}},
    {"TwoTypes", {at::kFloat, at::kBFloat16}}};

class ReplicaLinks : public testing::TestWithParam<std::tuple<Way, Weights>> {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(ReplicaLinks, SendWeightsAsTheyWereThoughTheNextUpdateWritesThem) {
  const auto& [way, weights] = GetParam();
  Tensors mine;
  for (const c10::ScalarType type : weights.types)
    mine.push_back(at::ones({6}, at::device(kGpu).dtype(type)));
  std::vector<Message> kept;
  std::vector<Link> links(2);
  links[1].sender = std::make_unique<LateSender>(kept);
  const auto group = links_group(std::move(links), 1, "block 1");
  way.start(*group, mine);
  for (const at::Tensor& each : mine) each.zero_();
  ASSERT_EQ(kept.size(), 1u);
  for (const at::Tensor& sent : unpack(kept.front(), "x")) {
    EXPECT_GT(sent.numel(), 0);
    EXPECT_TRUE(sent.cpu().eq(1).all().item<bool>()) << sent.cpu();
  }
}

INSTANTIATE_TEST_SUITE_P(OnGpu, ReplicaLinks,
                         testing::Combine(testing::ValuesIn(kWays),
                                          testing::ValuesIn(kWeights)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  std::get<1>(info.param).name;
                         });

}  // namespace sluice::replica_links_test
