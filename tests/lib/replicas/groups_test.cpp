#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/replicas/flat_tensors.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/memory.h"
#include "lib/tensors/sums.h"

namespace sluice::groups_test {

using Groups = std::vector<std::unique_ptr<Group>>;
using MakeGroups = Groups (*)(int members);

constexpr Deadline kPatience = std::chrono::seconds(20);

Groups in_memory(int members) {
  return memory_group(members, kPatience, "block 1");
}

/// Over channels in memory.
Groups over_links(int members) {
  const auto count = static_cast<std::size_t>(members);
  std::vector<std::vector<Link>> links(count);
  for (auto& mine : links) mine.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j)
      std::tie(links[i][j], links[j][i]) =
          memory_link(kExchangeCapacity, kExchangeCapacity, kPatience);
  Groups groups;
  for (std::size_t i = 0; i < count; ++i)
    groups.push_back(
        links_group(std::move(links[i]), static_cast<int>(i) + 1, "block 1"));
  return groups;
}

/// One of many sizes, one in another order in memory, and one undefined.
Tensors tensors_of(int member, int round) {
  at::manual_seed(static_cast<std::uint64_t>(round) * 100 +
                  static_cast<std::uint64_t>(member));
  const at::Tensor images =
      at::randn({3, 5, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  return {at::randn({7}), images, at::Tensor(), at::randn({33, 65}),
          at::randn({1})};
}

/// Sums of each member, with a thread each.
std::vector<Tensors> sums_of(Groups& groups, int round) {
  std::vector<Tensors> sums(groups.size());
  std::vector<std::jthread> threads;
  for (auto& group : groups)
    // The generator of the tensors is one for all threads.
    threads.emplace_back([&, mine = tensors_of(group->member(), round)] {
      group->start_sum(mine);
      sums[static_cast<std::size_t>(group->member()) - 1] = group->finish_sum();
    });
  threads.clear();
  return sums;
}

/// Sums whole tensors only, and leaves the rest to the base.
class PlainGroup final : public Group {
 public:
  explicit PlainGroup(std::unique_ptr<Group> group)
      : group_(std::move(group)) {}
  int members() const override { return group_->members(); }
  int member() const override { return group_->member(); }
  void start_sum(Tensors mine) override { group_->start_sum(std::move(mine)); }
  Tensors finish_sum() override { return group_->finish_sum(); }
  bool is_ready() const override { return group_->is_ready(); }

 private:
  std::unique_ptr<Group> group_;
};

Groups plain(int members) {
  Groups groups = in_memory(members);
  for (auto& group : groups)
    group = std::make_unique<PlainGroup>(std::move(group));
  return groups;
}

class Kinds : public testing::TestWithParam<MakeGroups> {};
INSTANTIATE_TEST_SUITE_P(Groups, Kinds,
                         testing::Values(in_memory, over_links, plain));

/// In a thread for each member.
template <class Work>
void by_each(Groups& groups, const Work& work) {
  std::vector<std::jthread> threads;
  for (auto& group : groups)
    threads.emplace_back([&, group = group.get()] { work(*group); });
}

TEST_P(Kinds, GiveEachItsPartOfTheSums) {
  for (const int members : {2, 3, 5}) {
    std::vector<Tensors> mine;
    for (int member = 1; member <= members; ++member)
      mine.push_back(tensors_of(member, 0));
    const Tensors sums = sum_in_order(mine);
    Groups groups = GetParam()(members);
    for (int round = 0; round < 2; ++round)
      by_each(groups, [&](Group& group) {
        group.start_parts(mine[static_cast<std::size_t>(group.member()) - 1]);
        const Tensors parts = group.finish_parts();
        const Tensors expected = parts_of(sums, {group.member(), members});
        ASSERT_EQ(parts.size(), expected.size());
        for (std::size_t i = 0; i < parts.size(); ++i) {
          ASSERT_EQ(parts[i].defined(), expected[i].defined());
          if (!parts[i].defined()) continue;
          EXPECT_TRUE(parts[i].equal(expected[i])) << i;
        }
      });
  }
}

/// Three times the number is no float, so that a sum of three over 3 has other
/// bits.
Tensors numbers_that_round() {
  at::manual_seed(11);
  return {at::randn({7, 5}), at::full({3}, -0.0),
          at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast)};
}

/// What each replica takes for the mean.
std::vector<Tensors> means_of(Groups groups, const std::vector<Tensors>& mine) {
  std::vector<Tensors> means(groups.size());
  by_each(groups, [&](Group& group) {
    const auto i = static_cast<std::size_t>(group.member()) - 1;
    group.start_sum(mine[i]);
    means[i] = group.finish_mean();
  });
  return means;
}

TEST(Means, MeansOfEqualTensorsHaveTheirBits) {
  for (const MakeGroups make : {in_memory, over_links})
    for (const int members : {2, 3, 5, 6, 7}) {
      const std::vector<Tensors> mine(static_cast<std::size_t>(members),
                                      numbers_that_round());
      for (const Tensors& means : means_of(make(members), mine))
        for (std::size_t i = 0; i < means.size(); ++i) {
          EXPECT_TRUE(means[i].equal(mine[0][i])) << members << ", " << i;
          EXPECT_TRUE(means[i].signbit().equal(mine[0][i].signbit()));
        }
    }
}

TEST_P(Kinds, GiveAllTheSameMean) {
  for (const int members : {2, 3, 5}) {
    std::vector<Tensors> mine;
    for (int member = 1; member <= members; ++member)
      mine.push_back(tensors_of(member, 0));
    const Tensors sums = sum_in_order(mine);
    const auto all = means_of(GetParam()(members), mine);
    for (const Tensors& means : all)
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_EQ(means[i].defined(), sums[i].defined());
        if (!sums[i].defined()) continue;
        EXPECT_TRUE(means[i].equal(all[0][i])) << i;
        EXPECT_TRUE(means[i].allclose(sums[i] / members, 1e-5, 1e-6)) << i;
      }
  }
}

TEST(Means, AreTheSameInMemoryAndOverLinks) {
  std::vector<Tensors> mine;
  for (int member = 1; member <= 3; ++member)
    mine.push_back(tensors_of(member, 0));
  const Tensors here = means_of(in_memory(3), mine)[1];
  const Tensors there = means_of(over_links(3), mine)[2];
  for (std::size_t i = 0; i < here.size(); ++i)
    if (here[i].defined()) {
      EXPECT_TRUE(here[i].equal(there[i])) << i;
    }
}

/// Bits that an addition in floating point would not keep.
constexpr float kMinusZero = -0.0F;

TEST_P(Kinds, GatherWhatEachHasOfTheWhole) {
  for (const int members : {2, 3, 5}) {
    Groups groups = GetParam()(members);
    for (int round = 0; round < 2; ++round) {
      Tensors whole = tensors_of(1, round);
      whole.erase(whole.begin() + 2);  // the undefined one
      whole.push_back(at::full({200}, kMinusZero));
      by_each(groups, [&](Group& group) {
        Tensors mine;
        for (const at::Tensor& tensor : whole) {
          mine.push_back(at::full_like(tensor, 1e30));
          const Share share{group.member(), members};
          part_of(mine.back(), share).copy_(part_of(tensor, share));
        }
        group.start_gather(mine);
        group.finish_gather(mine);
        for (std::size_t i = 0; i < whole.size(); ++i)
          EXPECT_EQ(std::memcmp(mine[i].data_ptr(), whole[i].data_ptr(),
                                whole[i].nbytes()),
                    0)
              << i;
      });
    }
  }
}

/// On a ring of one direction: each takes from the one before it.
Peers round_the_ring(int member, int members) {
  return {{member % members + 1}, {(member + members - 2) % members + 1}};
}

TEST_P(Kinds, ShareWithPeersWhatTheyPublish) {
  for (const int members : {2, 3, 5}) {
    Groups groups = GetParam()(members);
    for (int round = 0; round < 3; ++round) {
      std::vector<Tensors> all;
      for (int member = 1; member <= members; ++member)
        all.push_back(tensors_of(member, round));
      for (Tensors& each : all) each.push_back(at::full({200}, kMinusZero));
      by_each(groups, [&](Group& group) {
        const Peers peers = round_the_ring(group.member(), members);
        group.start_share(all[static_cast<std::size_t>(group.member()) - 1],
                          peers);
        const std::vector<Tensors> theirs = group.finish_share();
        ASSERT_EQ(theirs.size(), 1U);
        const Tensors& expected =
            all[static_cast<std::size_t>(peers.from[0]) - 1];
        ASSERT_EQ(theirs[0].size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(theirs[0][i].defined(), expected[i].defined());
          if (!expected[i].defined()) continue;
          EXPECT_EQ(theirs[0][i].strides(), expected[i].strides());
          EXPECT_EQ(std::memcmp(theirs[0][i].data_ptr(), expected[i].data_ptr(),
                                expected[i].nbytes()),
                    0)
              << i;
        }
      });
    }
  }
}

/// Member 1 of 3 gives to 2 and takes nothing; 3 has no peers.
Peers one_way(int member) {
  if (member == 1) return {.to = {2}};
  if (member == 2) return {.from = {1}};
  return {};
}

TEST_P(Kinds, ShareAmongSumsAndWithNobody) {
  Groups groups = GetParam()(3);
  for (int round = 0; round < 3; ++round)
    by_each(groups, [&](Group& group) {
      group.start_share({at::full({3}, static_cast<float>(group.member()))},
                        one_way(group.member()));
      const std::vector<Tensors> theirs = group.finish_share();
      ASSERT_EQ(theirs.size(), group.member() == 2 ? 1U : 0U);
      if (group.member() == 2) {
        EXPECT_EQ(theirs[0][0][0].item<double>(), 1);
      }
      group.start_sum({at::full({3}, static_cast<float>(group.member()))});
      EXPECT_EQ(group.finish_sum()[0][0].item<double>(), 6);
    });
}

TEST(Groups, ShareWithoutWaitingForThoseWhoAreNoPeers) {
  for (const MakeGroups make : {in_memory, over_links}) {
    Groups groups = make(3);
    groups[0]->start_share({at::ones({2})}, one_way(1));
    EXPECT_TRUE(groups[0]->finish_share().empty());
    groups[1]->start_share({at::zeros({2})}, one_way(2));
    EXPECT_TRUE(groups[1]->is_ready());
    EXPECT_EQ(groups[1]->finish_share()[0][0][1].item<double>(), 1);
  }
}

TEST_P(Kinds, SumInTheOrderOfTheReplicas) {
  for (const int members : {2, 3, 5}) {
    Groups groups = GetParam()(members);
    for (int round = 0; round < 3; ++round) {
      std::vector<Tensors> parts;
      for (int member = 1; member <= members; ++member)
        parts.push_back(tensors_of(member, round));
      const Tensors expected = sum_in_order(parts);
      for (const Tensors& sum : sums_of(groups, round))
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(sum[i].defined(), expected[i].defined());
          if (!sum[i].defined()) continue;
          EXPECT_TRUE(sum[i].equal(expected[i])) << members << ", " << i;
          EXPECT_EQ(sum[i].strides(), expected[i].strides());
        }
    }
  }
}

/// What one sends to another: bytes that say who it is from and to, a number
/// that no other pair has.
at::Tensor letter(int from, int to, int round) {
  return at::full({from * 5 + to + round}, from * 16 + to, at::kByte);
}

TEST(Groups, SwapMessagesOfAnySizeBetweenSums) {
  for (const MakeGroups make : {in_memory, over_links})
    for (const int members : {2, 3}) {
      Groups groups = make(members);
      for (int round = 0; round < 3; ++round) {
        by_each(groups, [&](Group& group) {
          Tensors to_each;
          for (int to = 1; to <= members; ++to)
            to_each.push_back(letter(group.member(), to, round));
          group.start_swap(to_each);
          const Tensors from_each = group.finish_swap();
          ASSERT_EQ(from_each.size(), static_cast<std::size_t>(members));
          for (int from = 1; from <= members; ++from)
            EXPECT_TRUE(from_each[static_cast<std::size_t>(from) - 1].equal(
                letter(from, group.member(), round)));
          group.start_sum({at::ones({3})});
          EXPECT_EQ(group.finish_sum()[0][0].item<float>(), members);
        });
      }
    }
}

TEST(Groups, ThatOnlySumRefuseToSwap) {
  Groups groups = plain(2);
  EXPECT_THROW(groups[0]->start_swap({at::zeros({1}, at::kByte)}),
               InternalError);
  EXPECT_THROW(groups[0]->finish_swap(), InternalError);
}

TEST_P(Kinds, GiveTensorsOfTheirOwn) {
  Groups groups = GetParam()(2);
  const std::vector<Tensors> first = sums_of(groups, 0);
  EXPECT_NE(first[0][0].data_ptr(), first[1][0].data_ptr());
}

TEST_P(Kinds, SayWhoIsGone) {
  Groups groups = GetParam()(2);
  groups[0]->start_sum({at::ones({2})});
  groups.pop_back();
  try {
    groups[0]->finish_sum();
    FAIL() << "no error";
  } catch (const LinkError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("replica 2") != std::string::npos ||
                text.find("gone") != std::string::npos)
        << text;
  }
}

TEST(Groups, InMemoryAreReadyWhenAllHavePublished) {
  Groups groups = in_memory(2);
  groups[0]->start_sum({at::ones({2})});
  EXPECT_FALSE(groups[0]->is_ready());
  groups[1]->start_sum({at::ones({2})});
  EXPECT_TRUE(groups[0]->is_ready());
}

TEST(Groups, InMemoryWaitNoLongerThanTheirDeadline) {
  Groups groups = memory_group(2, std::chrono::milliseconds(20), "block 1");
  groups[0]->start_sum({at::ones({2})});
  EXPECT_THROW(groups[0]->finish_sum(), LinkError);
}

TEST(Groups, OverLinksRefuseAnotherLayout) {
  Groups groups = over_links(2);
  const at::Tensor image = at::ones({1, 2, 3, 3});
  groups[0]->start_sum({image});
  groups[1]->start_sum({image.contiguous(at::MemoryFormat::ChannelsLast)});
  EXPECT_THROW(groups[0]->finish_sum(), InternalError);
}

TEST(FlatTensors, PartsCoverAllElementsOnce) {
  const Tensors tensors = tensors_of(1, 0);
  const FlatTensors flat(tensors);
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    std::int64_t seen = 0;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < parts; ++i) {
      const Part part = part_of(flat.elements(), i, parts);
      EXPECT_EQ(part.begin, end);
      end = part.end;
      for (const at::Tensor& piece : flat.range(part.begin, part.end)) {
        seen += piece.numel();
        EXPECT_EQ(piece.storage_offset() % kLine, 0) << "can't be shared";
      }
    }
    EXPECT_EQ(end, flat.elements());
    EXPECT_EQ(seen, 7 + 3 * 5 * 4 * 4 + 33 * 65 + 1);
  }
}

}  // namespace sluice::groups_test
