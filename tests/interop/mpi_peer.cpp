// A rank of the tests of mpi_group(), which mpirun starts several of:
//
//   mpi_peer sums BLOCKS     sums tensors of all kinds, and compares
//   mpi_peer layouts BLOCKS  replica 2 lays out its second sum differently
//   mpi_peer late BLOCKS     replica 2 begins its second sum too late
//   mpi_peer lost BLOCKS     replica 2 ends by an exception before its second
//   sum mpi_peer crowd BLOCKS    the group is made for one replica more
//   mpi_peer time BYTES      times sums of so many bytes, of one block
//
// Rank r is replica r / BLOCKS + 1 of block r % BLOCKS + 1. Exit status 1 after
// an exception, whose text it prints.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/replicas/groups/mpi.h"

namespace sluice {
namespace {

constexpr Deadline kDeadline = std::chrono::seconds(60);

/// Which replica of which block a rank is.
MpiMembers place_of(const MpiSession& session, int blocks) {
  const int block = session.rank() % blocks + 1;
  return {.members = session.ranks() / blocks,
          .member = session.rank() / blocks + 1,
          .colour = block,
          .name = fmt::format("block {}", block)};
}

void say(const MpiMembers& who, const std::string& text) {
  // One write, or the lines of several ranks could mix.
  const std::string line =
      fmt::format("{}, replica {}: {}\n", who.name, who.member, text);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not as expected: " + what);
}

/// A line of whole numbers, of which float16 knows all sums.
at::Tensor numbers(std::int64_t count, at::ScalarType type, std::int64_t seed) {
  return ((at::arange(count, at::kLong) * 7 + seed * 13) % 101 - 50).to(type);
}

/// What a replica gives to the sum of that number.
Tensors tensors_of(int block, int member, std::int64_t number) {
  const std::int64_t seed =
      number + std::int64_t{100} * member + std::int64_t{1000} * block;
  const at::Tensor image =
      numbers(std::int64_t{2} * 3 * 5 * 7, at::kFloat, seed + 1);
  return {numbers(1013, at::kFloat, seed),
          image.view({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast),
          {},
          numbers(77, at::kDouble, seed + 2).view({7, 11}).t(),
          at::scalar_tensor(static_cast<double>(seed % 97), at::kFloat),
          at::empty({0, 4}),
          numbers(13, at::kBFloat16, seed + 3),
          numbers(3, at::kHalf, seed + 4),
          numbers(6, at::kLong, seed + 5),
          {},
          numbers(10, at::kFloat, seed + 6).slice(0, 0, 10, 3)};
}

/// Sums in the order of the replicas.
Tensors sums_of(const MpiMembers& who, std::int64_t number) {
  Tensors sums = tensors_of(who.colour, 1, number);
  for (int member = 2; member <= who.members; ++member) {
    const Tensors more = tensors_of(who.colour, member, number);
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (sums[i].defined()) sums[i] = sums[i] + more[i];
  }
  return sums;
}

void compare(const Tensors& found, const Tensors& expected,
             const Tensors& given) {
  expect(found.size() == expected.size(), "the number of tensors");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string name = fmt::format("tensor {}", i);
    expect(found[i].defined() == expected[i].defined(), name + " is defined");
    if (!found[i].defined()) continue;
    expect(found[i].scalar_type() == given[i].scalar_type(), name + "'s type");
    expect(at::equal(found[i], expected[i]), name + "'s sums");
    if (given[i].is_non_overlapping_and_dense())
      expect(found[i].strides() == given[i].strides(), name + "'s strides");
  }
}

/// All replicas have the same bits of sums that were rounded.
void compare_bits(Group& group, int seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  group.start_sum({at::randn({100003})});
  const at::Tensor bits = group.finish_sum().at(0).view(at::kInt).to(at::kLong);
  const at::Tensor weights = at::arange(1, bits.numel() + 1, at::kLong) * 40503;
  const at::Tensor hash = (bits * weights).sum();
  group.start_sum({hash});
  expect(at::equal(group.finish_sum().at(0), hash * group.members()),
         "the same bits for all replicas");
}

/// More elements than go into one call of MPI.
void sum_many(Group& group) {
  group.start_sum({at::full({9000001}, group.member(), at::kInt)});
  const at::Tensor sum = group.finish_sum().at(0);
  const int expected = group.members() * (group.members() + 1) / 2;
  expect(sum.eq(expected).all().item<bool>(), "the sum of many");
}

/// Without finish_sum(), until is_ready() says so.
void sum_without_waiting(Group& group) {
  group.start_sum({at::full({30}, group.member(), at::kFloat)});
  while (!group.is_ready()) std::this_thread::yield();
  const double expected = group.members() * (group.members() + 1) / 2.0;
  expect(group.finish_sum().at(0).eq(expected).all().item<bool>(),
         "the sum that was ready");
}

void check_sums(Group& group, const MpiMembers& who) {
  constexpr int kSums = 10;
  for (int number = 0; number < kSums; ++number) {
    const Tensors given = tensors_of(who.colour, who.member, number);
    group.start_sum(given);
    compare(group.finish_sum(), sums_of(who, number), given);
  }
  group.start_sum({});
  expect(group.finish_sum().empty(), "the sum of nothing");
  sum_without_waiting(group);
  sum_many(group);
  compare_bits(group, who.member);
  say(who, fmt::format("{} sums are right", kSums));
}

void sum_two_sizes(Group& group, const MpiMembers& who) {
  group.start_sum({at::ones({5}), at::ones({1000})});
  group.finish_sum();
  group.start_sum({at::ones({5}), at::ones({who.member == 2 ? 999 : 1000})});
  group.finish_sum();
  say(who, "summed what can't be summed");
}

/// `before`: what replica 2 does between its sums.
template <class Before>
void sum_twice(Group& group, const MpiMembers& who, Before before) {
  group.start_sum({at::ones({1000})});
  group.finish_sum();
  if (who.member == 2) before();
  group.start_sum({at::ones({1000})});
  group.finish_sum();
  say(who, "ends");
}

void time_sums(Group& group, const MpiMembers& who, std::int64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSums = 50;
  const Tensors mine = {at::ones({bytes / 4})};
  Clock::time_point begin;
  for (int i = -5; i < kSums; ++i) {
    if (i == 0) begin = Clock::now();
    group.start_sum(mine);
    group.finish_sum();
  }
  const std::chrono::duration<double, std::milli> time = Clock::now() - begin;
  if (who.member == 1)
    say(who,
        fmt::format("{} bytes: {:.3f} ms a sum", bytes, time.count() / kSums));
}

void run(const std::string& what, std::int64_t number) {
  const auto session = std::make_shared<MpiSession>();
  MpiMembers who =
      place_of(*session, what == "time" ? 1 : static_cast<int>(number));
  if (what == "crowd") ++who.members;
  const Deadline deadline = what == "late" ? Deadline(500) : kDeadline;
  const auto group = mpi_group(session, who, deadline);
  if (what == "sums") return check_sums(*group, who);
  if (what == "layouts") return sum_two_sizes(*group, who);
  if (what == "time") return time_sums(*group, who, number);
  sum_twice(*group, who, [&] {
    if (what == "lost") throw std::runtime_error("replica 2 fails");
    std::this_thread::sleep_for(4 * deadline);
  });
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  at::set_num_threads(1);
  try {
    if (count != 3) throw std::runtime_error("mpi_peer WHAT NUMBER");
    sluice::run(words[1], std::stoll(words[2]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "mpi_peer: {}\n", error.what());
    return 1;
  }
  return 0;
}
