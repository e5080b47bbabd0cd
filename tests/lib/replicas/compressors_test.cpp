// What replicas get of compressed gradients, beside what was given and is kept:
// the invariants of the specification (parallel, A15-A17, A20-A22).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/memory.h"
#include "lib/tensors/sums.h"

namespace sluice::compressors_test {

constexpr Deadline kPatience = std::chrono::seconds(20);

using Options = std::vector<
    std::pair<const char*, std::variant<bool, double, std::int64_t>>>;

CompressorKind kind_of(const std::string& name, const Options& options = {}) {
  ConfigNode table{.value = ConfigNode::Table{}};
  for (const auto& [key, value] : options)
    std::visit([&, key = key](auto of) { table.set(key, {.value = of}); },
               value);
  Fields fields(&table, "replicas");
  return find_row(compressors(), name, "compressor").make(fields);
}

/// A matrix, images in another order in memory, a vector, and one of a few
/// elements.
NamedTensors parameters() {
  return {{"matrix", at::zeros({12, 40})},
          {"images",
           at::zeros({4, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
          {"vector", at::zeros({33})},
          {"small", at::zeros({2, 2})}};
}

Tensors gradients(int member, int update) {
  at::manual_seed(static_cast<std::uint64_t>(update) * 100 +
                  static_cast<std::uint64_t>(member));
  Tensors all;
  for (const auto& [name, parameter] : parameters())
    all.push_back(at::empty_like(parameter).normal_());
  return all;
}

std::vector<std::unique_ptr<Group>> in_memory(int members) {
  return memory_group(members, kPatience, "block 1");
}

std::vector<std::unique_ptr<Group>> over_links(int members) {
  const auto count = static_cast<std::size_t>(members);
  std::vector<std::vector<Link>> links(count);
  for (auto& mine : links) mine.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j)
      std::tie(links[i][j], links[j][i]) =
          memory_link(kExchangeCapacity, kExchangeCapacity, kPatience);
  std::vector<std::unique_ptr<Group>> groups;
  for (std::size_t i = 0; i < count; ++i)
    groups.push_back(
        links_group(std::move(links[i]), static_cast<int>(i) + 1, "block 1"));
  return groups;
}

/// The replicas of a block, each with a thread of its own while it exchanges.
struct Replicas {
  Replicas(const CompressorKind& of, int members,
           std::vector<std::unique_ptr<Group>> (*make)(int) = in_memory)
      : kind(of), groups(make(members)) {
    for (int member = 1; member <= members; ++member)
      exchanges.push_back(kind.make(
          parameters(), {.seed = 5, .member = member, .members = members}));
  }

  /// Sum that each replica gets.
  std::vector<Tensors> exchange(const std::vector<Tensors>& mine) {
    const ExchangedUpdate update{.number = number, .epoch = double(number)};
    std::vector<Tensors> sums(groups.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < groups.size(); ++i)
      threads.emplace_back([&, i] {
        exchanges[i]->start(mine[i], update, *groups[i]);
        if (kind.rounds > 1) {
          exchanges[i]->finish_first(*groups[i]);
          exchanges[i]->start_second(*groups[i]);
        }
        sums[i] = exchanges[i]->finish(*groups[i]);
      });
    threads.clear();
    ++number;
    return sums;
  }

  /// Exchange of new gradients.
  std::vector<Tensors> exchange() { return exchange(given()); }
  std::vector<Tensors> given() const {
    std::vector<Tensors> all;
    for (std::size_t i = 0; i < groups.size(); ++i)
      all.push_back(
          gradients(static_cast<int>(i) + 1, static_cast<int>(number)));
    return all;
  }
  /// What replica r keeps of a parameter under that name; undefined: nothing.
  at::Tensor kept(std::size_t replica, const std::string& name) const {
    for (const auto& [each, tensor] : exchanges[replica]->state())
      if (each == "compress." + name) return tensor;
    return {};
  }

  CompressorKind kind;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<GradientExchange>> exchanges;
  std::int64_t number = 0;
};

double apart(const at::Tensor& left, const at::Tensor& right) {
  return (left - right).abs().max().item<double>();
}

double apart(const Tensors& left, const Tensors& right) {
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, apart(left[i], right[i]));
  return most;
}

struct Method {
  const char* name;
  Options options = {};
};

void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name;
}

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"top_k", {{"ratio", 0.1}}},
      {"top_k", {{"ratio", 0.1}, {"error_feedback", false}}},
      {"threshold", {{"threshold", 0.5}}},
      {"dgc", {{"ratio", 0.05}, {"clip", 1.0}, {"warmup_epochs", 4.0}}},
      {"one_bit"},
      {"one_bit", {{"error_feedback", false}}},
      {"qsgd"},
      {"qsgd", {{"error_feedback", true}, {"levels", std::int64_t{127}}}},
      {"e3m0"},
      {"e3m0", {{"error_feedback", true}, {"bucket", std::int64_t{7}}}},
      {"top_k",
       {{"ratio", 0.1}, {"chunk", std::int64_t{7}}, {"error_decay", 0.5}}},
      {"sign"},
      {"sign", {{"momentum", 0.5}}},
      {"sign", {{"error_feedback", true}}},
      {"power_sgd"}};
  return all;
}

class EachCompressor : public testing::TestWithParam<std::size_t> {
 protected:
  const Method& method() const { return methods()[GetParam()]; }
  CompressorKind kind() const {
    return kind_of(method().name, method().options);
  }
};
INSTANTIATE_TEST_SUITE_P(Compressors, EachCompressor,
                         testing::Range<std::size_t>(0, 12));

TEST_P(EachCompressor, GivesAllReplicasTheSameBitsInMemoryAndOverLinks) {
  for (const int members : {2, 3}) {
    Replicas in_one(kind(), members);
    Replicas linked(kind(), members, over_links);
    for (int update = 0; update < 3; ++update) {
      const std::vector<Tensors> sums = in_one.exchange();
      const std::vector<Tensors> others = linked.exchange();
      for (std::size_t r = 0; r < sums.size(); ++r)
        for (std::size_t i = 0; i < sums[r].size(); ++i) {
          EXPECT_TRUE(sums[r][i].equal(sums[0][i])) << members << ", " << i;
          EXPECT_TRUE(others[r][i].equal(sums[0][i])) << members << ", " << i;
          EXPECT_EQ(sums[r][i].strides(), parameters()[i].second.strides());
        }
    }
    EXPECT_EQ(in_one.exchanges[1]->sent_bytes(),
              linked.exchanges[1]->sent_bytes());
  }
}

TEST_P(EachCompressor, SendsLessAndGivesSomethingElseThanTheSum) {
  Replicas replicas(kind(), 2);
  replicas.number = 9;  // after the warm-up
  const Tensors plain = sum_in_order(replicas.given());
  EXPECT_GT(apart(replicas.exchange()[0], plain), 1e-3);
  // In a plain sum each of two replicas sends all of its bytes once.
  EXPECT_LT(replicas.exchanges[0]->sent_bytes(), bytes_of(plain));
}

TEST_P(EachCompressor, GoesOnWithTheBitsOfItsState) {
  Replicas whole(kind(), 2);
  Replicas resumed(kind(), 2);
  Replicas anew(kind(), 2);
  whole.exchange();
  whole.exchange();
  for (std::size_t r = 0; r < 2; ++r) {
    const NamedTensors saved = whole.exchanges[r]->state();
    const NamedTensors into = resumed.exchanges[r]->state();
    ASSERT_EQ(saved.size(), into.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(saved[i].first, into[i].first);
      at::Tensor tensor = into[i].second;
      tensor.copy_(saved[i].second);
    }
  }
  resumed.number = whole.number;
  anew.number = whole.number;
  const Tensors expected = whole.exchange()[0];
  EXPECT_EQ(apart(resumed.exchange()[0], expected), 0);
  if (whole.exchanges[0]->state().empty()) return;
  EXPECT_GT(apart(anew.exchange()[0], expected), 1e-4);
}

TEST_P(EachCompressor, LeavesOutWhatHasNoGradient) {
  Replicas replicas(kind(), 2);
  std::vector<Tensors> mine = replicas.given();
  for (Tensors& each : mine) each[0] = at::Tensor();
  const std::vector<Tensors> sums = replicas.exchange(mine);
  EXPECT_FALSE(sums[1][0].defined());
  EXPECT_TRUE(sums[1][1].defined());
}

TEST_P(EachCompressor, ShowsAllReplicasThatOneHasNoNumber) {
  for (const double value : {std::nan(""), double(INFINITY)}) {
    Replicas replicas(kind(), 2);
    std::vector<Tensors> mine = replicas.given();
    mine[1][0][3][7] = value;
    for (const Tensors& sum : replicas.exchange(mine))
      EXPECT_FALSE(sum[0].isfinite().all().item<bool>()) << value;
  }
}

/// Rows, columns and a vector's elements that no replica has a gradient of, as
/// of units that are dead and tokens that no batch has; some are -0.
std::vector<Tensors> with_zeros(std::vector<Tensors> gradients) {
  for (std::size_t r = 0; r < gradients.size(); ++r) {
    Tensors& mine = gradients[r];
    const double zero = r == 0 ? -0.0 : 0.0;
    mine[0].slice(0, 0, 3).fill_(zero);
    mine[0].slice(1, 5, 9).fill_(zero);
    mine[1].select(0, 1).fill_(zero);
    mine[2].slice(0, 10, 20).fill_(zero);
    mine[3].fill_(zero);
  }
  return gradients;
}

// Papers: sgn(0) = 0. A weight without a gradient walked by a step a turn.
TEST_P(EachCompressor, MovesNoWeightThatHasNoGradient) {
  // A basis of LAPACK's has rounding where its rows should be 0.
  const bool rounds = std::string(method().name) == "power_sgd";
  for (const int members : {2, 3}) {
    Replicas replicas(kind(), members);
    for (int update = 0; update < 6; ++update) {
      const Tensors sum = replicas.exchange(with_zeros(replicas.given()))[0];
      const double most = rounds ? 1e-5 : 0;
      EXPECT_LE(sum[0].slice(0, 0, 3).abs().max().item<double>(), most);
      EXPECT_LE(sum[0].slice(1, 5, 9).abs().max().item<double>(), most);
      EXPECT_LE(sum[1].select(0, 1).abs().max().item<double>(), most);
      EXPECT_EQ(sum[2].slice(0, 10, 20).abs().max().item<double>(), 0);
      EXPECT_EQ(sum[3].abs().max().item<double>(), 0);
    }
  }
}

// PowerSGD's matrix Q became 0 with such an update, and stayed so where the
// gradient's first rows are 0 too.
TEST_P(EachCompressor, GoesOnAfterAnUpdateWithoutAnyGradient) {
  Replicas replicas(kind(), 2);
  std::vector<Tensors> none = replicas.given();
  for (Tensors& mine : none)
    for (at::Tensor& each : mine) each.zero_();
  const Tensors nothing = replicas.exchange(none)[0];
  for (const at::Tensor& sum : nothing)
    EXPECT_EQ(sum.abs().max().item<double>(), 0);
  double largest = 0;
  for (int update = 0; update < 4; ++update)
    largest =
        std::max(largest, replicas.exchange(with_zeros(replicas.given()))[0][0]
                              .abs()
                              .max()
                              .item<double>());
  EXPECT_GT(largest, 1e-3);
}

// Among equal magnitudes the first ones are sent, by all replicas.
TEST_P(EachCompressor, GivesAllReplicasTheSameOfEqualMagnitudes) {
  Replicas replicas(kind(), 3);
  std::vector<Tensors> mine = replicas.given();
  for (Tensors& gradients : mine)
    for (at::Tensor& each : gradients) each = each.sign() * 0.5;
  for (int update = 0; update < 3; ++update) {
    const std::vector<Tensors> sums = replicas.exchange(mine);
    for (std::size_t r = 1; r < 3; ++r)
      for (std::size_t i = 0; i < sums[0].size(); ++i)
        EXPECT_TRUE(sums[r][i].equal(sums[0][i])) << update;
  }
}

TEST_P(EachCompressor, HasBytesThatPlansCanCount) {
  std::vector<TensorSizes> sizes;
  for (const auto& [name, tensor] : parameters())
    sizes.push_back(tensor.sizes().vec());
  Replicas replicas(kind(), 2);
  replicas.number = 9;
  replicas.exchange();
  const CompressorKind& of = replicas.kind;
  const ReplicaExchange exchange{
      .members = 2, .way = of.way, .rounds = of.rounds};
  const double planned =
      of.bytes(sizes) * exchange.halves() / exchange.parts() * exchange.rounds;
  const auto sent = static_cast<double>(replicas.exchanges[0]->sent_bytes() +
                                        replicas.exchanges[1]->sent_bytes()) /
                    2;
  if (std::string(method().name) == "threshold") {
    EXPECT_GT(sent, planned);  // gradients decide it
    return;
  }
  EXPECT_NEAR(sent, planned, 32) << "but for what begins a message";
}

/// Compressors whose residual holds what was not sent.
class Remembering : public testing::TestWithParam<Method> {};
INSTANTIATE_TEST_SUITE_P(
    Compressors, Remembering,
    testing::Values(
        Method{"top_k", {{"ratio", 0.1}}},
        Method{"threshold", {{"threshold", 0.5}}},
        Method{"dgc", {{"ratio", 0.05}, {"momentum", 0.0}}},
        Method{"qsgd",
               {{"error_feedback", true}, {"levels", std::int64_t{127}}}},
        Method{"e3m0", {{"error_feedback", true}}},
        Method{"top_k", {{"ratio", 0.1}, {"chunk", std::int64_t{7}}}},
        Method{"sign", {{"error_feedback", true}}}));

TEST_P(Remembering, HasSentAndKeptAllGradientsTogether) {
  Replicas replicas(kind_of(GetParam().name, GetParam().options), 3);
  Tensors given;
  Tensors got;
  for (int update = 0; update < 8; ++update) {
    const Tensors plain = sum_in_order(replicas.given());
    const Tensors sum = replicas.exchange()[0];
    given = given.empty() ? plain : sum_in_order({given, plain});
    got = got.empty() ? sum : sum_in_order({got, sum});
  }
  EXPECT_GT(apart(got, given), 0.1);
  for (std::size_t i = 0; i < got.size(); ++i) {
    at::Tensor all = got[i];
    for (std::size_t r = 0; r < 3; ++r)
      all = all + replicas.kept(r, "residual." + parameters()[i].first);
    EXPECT_LT(apart(all, given[i]), 1e-4) << i;
  }
}

TEST(TopK, TopKOfAllElementsIsNotCompressed) {
  const auto compresses = [](double ratio) {
    return static_cast<bool>(kind_of("top_k", {{"ratio", ratio}}).make);
  };
  EXPECT_FALSE(compresses(1));
  EXPECT_TRUE(compresses(0.999));
}

TEST(Threshold, TakesOneStepOffWhatIsLeftInEachUpdate) {
  Replicas replicas(kind_of("threshold", {{"threshold", 0.25}}), 2);
  const auto all_of = [](double value) {
    Tensors all;
    for (const auto& [name, parameter] : parameters())
      all.push_back(at::full_like(parameter, value));
    return all;
  };
  replicas.exchange({all_of(1), all_of(-1)});
  for (const double left : {0.75, 0.5, 0.25, 0.0, 0.0}) {
    EXPECT_EQ(apart(replicas.kept(0, "residual.matrix"), all_of(left)[0]), 0);
    EXPECT_EQ(apart(replicas.kept(1, "residual.matrix"), all_of(-left)[0]), 0);
    replicas.exchange({all_of(0), all_of(0)});
  }
}

/// What momentum SGD would have moved along after so many updates.
Tensors moved_by_momentum(int updates, double momentum) {
  Tensors velocity;
  Tensors moved;
  for (int update = 0; update < updates; ++update) {
    const Tensors sum =
        sum_in_order({gradients(1, update), gradients(2, update)});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (update == 0) {
        velocity.push_back(at::zeros_like(sum[i]));
        moved.push_back(at::zeros_like(sum[i]));
      }
      velocity[i] = momentum * velocity[i] + sum[i];
      moved[i] = moved[i] + velocity[i];
    }
  }
  return moved;
}

Tensors sum_of_exchanges(Replicas& replicas, int updates) {
  Tensors all;
  for (int update = 0; update < updates; ++update) {
    const Tensors sum = replicas.exchange()[0];
    all = all.empty() ? sum : sum_in_order({all, sum});
  }
  return all;
}

TEST(Dgc, WithoutMasksSendsAndKeepsTheMovementOfMomentumSgd) {
  Replicas replicas(
      kind_of("dgc", {{"ratio", 0.05}, {"momentum", 0.5}, {"masking", false}}),
      2);
  const Tensors got = sum_of_exchanges(replicas, 6);
  const Tensors moved = moved_by_momentum(6, 0.5);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string name = "residual." + parameters()[i].first;
    EXPECT_LT(apart(got[i] + replicas.kept(0, name) + replicas.kept(1, name),
                    moved[i]),
              1e-4);
  }
}

TEST(Dgc, DgcOfAllElementsIsMomentumSgdOrWithMasksPlainSgd) {
  for (const bool masking : {false, true}) {
    Replicas replicas(
        kind_of("dgc",
                {{"ratio", 1.0}, {"momentum", 0.5}, {"masking", masking}}),
        2);
    const Tensors got = sum_of_exchanges(replicas, 5);
    EXPECT_LT(apart(got, moved_by_momentum(5, masking ? 0 : 0.5)), 1e-4);
    EXPECT_GT(apart(got, moved_by_momentum(5, masking ? 0.5 : 0)), 0.1);
  }
}

TEST(Dgc, SendsFewerElementsInEachEpochOfItsWarmUp) {
  Replicas replicas(
      kind_of("dgc",
              {{"ratio", 0.001}, {"momentum", 0.0}, {"warmup_epochs", 4.0}}),
      2);
  // exchange() has an epoch for each update. Each tensor sends its part,
  // rounded up.
  for (const double ratio :
       {0.25119, 0.063096, 0.015849, 0.0039811, 0.001, 0.001}) {
    const std::int64_t before = replicas.exchanges[0]->sent_bytes();
    replicas.exchange();
    double expected = 8;
    for (const auto& [name, tensor] : parameters())
      expected += 4 + 8 * std::ceil(ratio * double(tensor.numel()));
    EXPECT_EQ(double(replicas.exchanges[0]->sent_bytes() - before), expected)
        << ratio;
  }
}

TEST(Dgc, ClipsEachReplicaToItsPartOfTheNorm) {
  Replicas replicas(
      kind_of("dgc", {{"ratio", 1.0}, {"momentum", 0.0}, {"clip", 0.5}}), 4);
  std::vector<Tensors> mine = replicas.given();
  for (std::size_t r = 1; r < 4; ++r)
    for (at::Tensor& each : mine[r]) each = at::zeros_like(each);
  const Tensors sum = replicas.exchange(mine)[0];
  double squares = 0;
  for (const at::Tensor& each : sum)
    squares += each.square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 0.5 / 2, 1e-5);
}

/// All elements one after the other, as they lie in memory.
at::Tensor in_a_line(const Tensors& tensors) {
  Tensors lines;
  for (const at::Tensor& each : tensors)
    lines.push_back(
        (each.dim() == 4 ? each.permute({0, 2, 3, 1}) : each).reshape(-1));
  return at::cat(lines);
}

// Element by element: the errors of an output add up to 0, so that sums over
// outputs would be right without any residual.
TEST(OneBit, KeepsWhatItsOwnerLostToo) {
  Replicas replicas(kind_of("one_bit"), 2);
  at::Tensor given = at::zeros({12 * 40 + 4 * 75 + 33 + 4});
  at::Tensor got = at::zeros_like(given);
  for (int update = 0; update < 6; ++update) {
    given = given + in_a_line(sum_in_order(replicas.given()));
    got = got + in_a_line(replicas.exchange()[0]);
  }
  at::Tensor of_replicas = at::zeros_like(given);
  Tensors of_owners;  // each has rows that follow on those of the one before
  for (std::size_t r = 0; r < 2; ++r) {
    Tensors residuals;
    for (const auto& [name, parameter] : parameters())
      residuals.push_back(replicas.kept(r, "residual." + name));
    of_replicas = of_replicas + in_a_line(residuals);
    of_owners.push_back(replicas.kept(r, "residual_of_sum.matrix"));
  }
  EXPECT_LT(apart(got + of_replicas + at::cat(of_owners), given), 1e-4);
  EXPECT_GT(apart(got + of_replicas, given), 0.1);
  EXPECT_GT(apart(got + at::cat(of_owners), given), 0.1);
}

TEST(OneBit, LeavesAnErrorOfMeanZeroInEachOutput) {
  Replicas replicas(kind_of("one_bit"), 2);
  for (int update = 0; update < 3; ++update) {
    replicas.exchange();
    for (const at::Tensor& residual :
         {replicas.kept(0, "residual.matrix"),
          replicas.kept(1, "residual.images").reshape({4, 75})}) {
      EXPECT_LT(residual.sum(1).abs().max().item<double>(), 1e-4);
      EXPECT_GT(residual.abs().max().item<double>(), 1e-2);
    }
  }
}

TEST(Sign, IsDecidedByTheMajorityAndATieIsZero) {
  const auto vote_of = [](const std::vector<double>& values) {
    Replicas replicas(kind_of("sign"), static_cast<int>(values.size()));
    std::vector<Tensors> mine;
    for (const double value : values) {
      mine.emplace_back();
      for (const auto& [name, parameter] : parameters())
        mine.back().push_back(at::full_like(parameter, value));
    }
    // As the update has it: divided by the number of replicas.
    return replicas.exchange(mine)[0][0][0][0].item<double>() /
           static_cast<double>(values.size());
  };
  EXPECT_EQ(vote_of({7, 0.1, -100}), 1);
  EXPECT_EQ(vote_of({-7, 0.1, -100}), -1);
  EXPECT_EQ(vote_of({7, -0.1}), 0);
  EXPECT_EQ(vote_of({-2, -2, -2, -2}), vote_of({-2, -2}));
}

TEST(Sign, SignOfZeroIsNoVote) {
  const auto vote_of = [](const std::vector<double>& values,
                          const Options& options) {
    Replicas replicas(kind_of("sign", options),
                      static_cast<int>(values.size()));
    std::vector<Tensors> mine;
    for (const double value : values) {
      mine.emplace_back();
      for (const auto& [name, parameter] : parameters())
        mine.back().push_back(at::full_like(parameter, value));
    }
    return replicas.exchange(mine)[0][0][0][0].item<double>() /
           static_cast<double>(values.size());
  };
  for (const Options& options : {Options{}, Options{{"momentum", 0.5}}}) {
    EXPECT_EQ(vote_of({0, 0, -0.0}, options), 0);
    EXPECT_EQ(vote_of({0, 0, 3}, options), 1) << "the others have none";
    EXPECT_EQ(vote_of({-1, 0, 3}, options), 0) << "a tie";
    EXPECT_EQ(vote_of({-1, 0, -3}, options), -1);
  }
}

/// -0 and 0 are the same number, so they may not differ in what is sent.
TEST(Sign, SendsOneBitForEachElementThatIsNotZero) {
  Replicas replicas(kind_of("sign"), 2);
  const auto sent_with = [&](double value) {
    const std::int64_t before = replicas.exchanges[0]->sent_bytes();
    std::vector<Tensors> mine = replicas.given();
    for (Tensors& gradients : mine) gradients[0].slice(0, 0, 6).fill_(value);
    replicas.exchange(mine);
    return replicas.exchanges[0]->sent_bytes() - before;
  };
  const std::int64_t without = sent_with(1);
  // Half of the matrix's 480 elements: 480 bits that mark, 240 signs less.
  EXPECT_EQ(sent_with(0), without + 480 / 8 + 256 / 8 - 480 / 8);
  EXPECT_EQ(sent_with(-0.0), sent_with(0));
}

TEST(PowerSgd, IsExactWhereTheMeanHasItsRank) {
  Replicas replicas(kind_of("power_sgd", {{"rank", std::int64_t{3}}}), 2);
  std::vector<Tensors> mine = replicas.given();
  at::manual_seed(1);
  // Matrices of rank 5 each, whose sum has rank 3.
  const at::Tensor shared = at::randn({12, 3}).matmul(at::randn({3, 40}));
  const at::Tensor apart_by = at::randn({12, 5}).matmul(at::randn({5, 40}));
  mine[0][0] = shared + apart_by;
  mine[1][0] = shared - apart_by;
  const Tensors sum = replicas.exchange(mine)[0];
  EXPECT_LT(apart(sum[0], 2 * shared), 3e-3);
  EXPECT_GT(apart(sum[1], sum_in_order(mine)[1]), 1e-2) << "of a higher rank";
}

TEST(PowerSgd, SumsVectorsAndWhatWouldNotBecomeSmallerAsTheyAre) {
  Replicas replicas(kind_of("power_sgd"), 2);
  const Tensors plain = sum_in_order(replicas.given());
  const Tensors sum = replicas.exchange()[1];
  EXPECT_TRUE(sum[2].equal(plain[2]));
  EXPECT_TRUE(sum[3].equal(plain[3]));
  EXPECT_FALSE(replicas.kept(0, "query.small").defined());
}

TEST(PowerSgd, HasSentAndKeptTheMeanOfAllGradients) {
  Replicas replicas(kind_of("power_sgd"), 2);
  Tensors given;
  Tensors got;
  for (int update = 0; update < 6; ++update) {
    const Tensors plain = sum_in_order(replicas.given());
    const Tensors sum = replicas.exchange()[0];
    given = given.empty() ? plain : sum_in_order({given, plain});
    got = got.empty() ? sum : sum_in_order({got, sum});
  }
  const at::Tensor left =
      replicas.kept(0, "residual.matrix") + replicas.kept(1, "residual.matrix");
  EXPECT_LT(apart(got[0] + left, given[0]), 1e-3);
  EXPECT_GT(apart(got[0], given[0]), 0.1);
}

TEST(PowerSgd, BeginsWithTheSameMatricesWhateverTheReplica) {
  Replicas replicas(kind_of("power_sgd"), 2);
  const at::Tensor query = replicas.kept(0, "query.matrix");
  EXPECT_EQ(query.sizes(), at::IntArrayRef({40, 2}));
  EXPECT_TRUE(query.equal(replicas.kept(1, "query.matrix")));
  EXPECT_FALSE(query.equal(
      kind_of("power_sgd")
          .make(parameters(), {.seed = 6, .member = 1, .members = 2})
          ->state()[0]
          .second));
}

/// Gives this replica other bytes than the other one has sent.
class DisturbingGroup final : public Group {
 public:
  explicit DisturbingGroup(std::function<at::Tensor(at::Tensor)> disturb)
      : disturb_(std::move(disturb)) {}
  int members() const override { return 2; }
  int member() const override { return 1; }
  void start_sum(Tensors /*mine*/) override {}
  Tensors finish_sum() override { return {}; }
  bool is_ready() const override { return true; }
  void start_swap(Tensors to_each) override { sent_ = std::move(to_each); }
  Tensors finish_swap() override { return {sent_[0], disturb_(sent_[0])}; }

 private:
  std::function<at::Tensor(at::Tensor)> disturb_;
  Tensors sent_;
};

void expect_refused(const char* name,
                    const std::function<at::Tensor(at::Tensor)>& disturb) {
  const CompressorKind kind = kind_of(name);
  const auto exchange =
      kind.make(parameters(), {.seed = 5, .member = 1, .members = 2});
  DisturbingGroup group(disturb);
  exchange->start(gradients(1, 0), {}, group);
  try {
    if (kind.rounds > 1)
      exchange->finish_first(group);
    else
      exchange->finish(group);
    FAIL() << name << ": no error";
  } catch (const LinkError& error) {
    EXPECT_NE(std::string(error.what()).find("replica 2"), std::string::npos)
        << error.what();
  }
}

TEST(Compressors, RefuseBytesThatNobodyCanHaveSent) {
  for (const char* name :
       {"top_k", "threshold", "dgc", "one_bit", "qsgd", "e3m0", "sign"}) {
    expect_refused(name, [](const at::Tensor& bytes) {
      return bytes.slice(0, 0, bytes.numel() - 1);
    });
    expect_refused(name, [](const at::Tensor& bytes) {
      return at::cat({bytes, at::zeros({1}, at::kByte)});
    });
    expect_refused(name, [](const at::Tensor& bytes) {
      at::Tensor others = bytes.clone();
      others[0] = others[0].item<int>() ^ 1;  // the number of elements
      return others;
    });
    expect_refused(
        name, [](const at::Tensor& bytes) { return bytes.to(at::kFloat); });
  }
}

}  // namespace sluice::compressors_test
