#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/memory_channel.h"
#include "lib/replicas/flat.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/memory.h"
#include "lib/replicas/sums.h"

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

/// Of each member, with threads of their own.
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

class Kinds : public testing::TestWithParam<MakeGroups> {};
INSTANTIATE_TEST_SUITE_P(Groups, Kinds, testing::Values(in_memory, over_links));

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

TEST(Flat, PartsCoverAllElementsOnce) {
  const Tensors tensors = tensors_of(1, 0);
  const Flat flat(tensors);
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
