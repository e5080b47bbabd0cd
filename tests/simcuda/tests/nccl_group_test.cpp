// Groups over a simulated NCCL, whose ranks are threads with a GPU each. It
// adds in the order of the ranks, and waits for the host where NCCL does not.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/kernels/cuda_ipc.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/nccl.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::nccl_group_test {

constexpr Deadline kPatience = std::chrono::seconds(20);

/// What the ranks of a communicator have in common.
struct World {
  std::barrier<> together{2};
  std::array<at::Tensor, 2> given;
};

struct Rank {
  World* world = nullptr;
  int rank = 0;
};

World* world_of_test = nullptr;
std::atomic<int> aborted = 0;
std::atomic<int> destroyed = 0;
std::atomic<Nccl::Result> async_error = Nccl::kSuccess;

Nccl::Result make_id(Nccl::UniqueId* id) {
  id->bytes = {};
  return Nccl::kSuccess;
}

Nccl::Result init_rank(Nccl::Comm* comm, int /*ranks*/, Nccl::UniqueId /*id*/,
                       int rank) {
  *comm = new Rank{.world = world_of_test, .rank = rank};
  return Nccl::kSuccess;
}

Nccl::Result get_async_error(Nccl::Comm /*comm*/, Nccl::Result* error) {
  *error = async_error.load();
  return Nccl::kSuccess;
}

Nccl::Result abort_rank(Nccl::Comm comm) {
  delete static_cast<Rank*>(comm);
  ++aborted;
  return Nccl::kSuccess;
}

Nccl::Result destroy_rank(Nccl::Comm comm) {
  delete static_cast<Rank*>(comm);
  ++destroyed;
  return Nccl::kSuccess;
}

void copy_now(int device, Nccl::Stream stream, void* to, const void* from,
              std::size_t bytes) {
  cuda_ipc()->copy(device, stream, static_cast<std::byte*>(to),
                   static_cast<const std::byte*>(from), bytes);
  cuda_ipc()->finish(device, stream);
}

c10::Device gpu_of(int member) {
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(member - 1)};
}

Nccl::Result sum_now(const void* from, void* to, std::size_t count, int type,
                     int op, Nccl::Comm comm, Nccl::Stream stream) {
  if (type != Nccl::kFloat32 || op != Nccl::kSum) return 4;
  const Rank& self = *static_cast<const Rank*>(comm);
  World& world = *self.world;
  const std::size_t bytes = count * sizeof(float);
  // Streams copy from GPU to GPU here; the host has been waited for then.
  const at::Tensor mine =
      at::empty({static_cast<std::int64_t>(count)},
                at::TensorOptions(at::kFloat).device(gpu_of(self.rank + 1)));
  copy_now(self.rank, stream, mine.data_ptr(), from, bytes);
  world.given.at(static_cast<std::size_t>(self.rank)) = mine.to(at::kCPU);
  world.together.arrive_and_wait();
  const at::Tensor sums =
      (world.given[0] + world.given[1]).to(gpu_of(self.rank + 1));
  world.together.arrive_and_wait();
  copy_now(self.rank, stream, to, sums.data_ptr(), bytes);
  return Nccl::kSuccess;
}

const char* text_of_error(Nccl::Result /*result*/) {
  return "a rank was lost";
}

Nccl simulated_nccl() {
  Nccl nccl;
  nccl.error_string = text_of_error;
  nccl.get_unique_id = make_id;
  nccl.comm_init_rank = init_rank;
  nccl.comm_async_error = get_async_error;
  nccl.comm_abort = abort_rank;
  nccl.comm_destroy = destroy_rank;
  nccl.all_reduce = sum_now;
  return nccl;
}

std::array<std::vector<Link>, 2> links_of_two() {
  std::array<std::vector<Link>, 2> links;
  for (auto& mine : links) mine.resize(2);
  std::tie(links[0][1], links[1][0]) =
      memory_link(kExchangeCapacity, kExchangeCapacity, kPatience);
  return links;
}

class NcclGroups : public SimulatedGpu {
 protected:
  void SetUp() override {
    SimulatedGpu::SetUp();
    world_of_test = &world_;
    aborted = 0;
    destroyed = 0;
    async_error = Nccl::kSuccess;
  }

  /// Runs what each of two replicas does with its group; the errors of each,
  /// which are empty without one.
  template <class Work>
  static std::array<std::string, 2> errors_of(Work work,
                                              bool on_one_gpu = false) {
    auto links = links_of_two();
    std::array<std::string, 2> errors;
    std::array<std::jthread, 2> threads;
    for (int member = 1; member <= 2; ++member) {
      const auto i = static_cast<std::size_t>(member) - 1;
      threads.at(i) = std::jthread([&, member, i] {
        const c10::Device device = gpu_of(member);
        const c10::DeviceGuard on(device);
        try {
          DeviceId id = {};
          id[0] = static_cast<std::byte>(on_one_gpu ? 0 : member);
          const auto group =
              nccl_group(simulated_nccl(), std::move(links.at(i)),
                         {.member = member,
                          .device = device,
                          .id = id,
                          .name = "block 1"});
          work(*group, device);
        } catch (const Error& error) {
          errors.at(i) = error.what();
        }
      });
    }
    for (std::jthread& thread : threads) thread.join();
    return errors;
  }

 private:
  World world_;
};

/// Values with digits that rounding shows, and an undefined tensor.
Tensors values_of(int member, int round) {
  const at::Tensor line = at::arange(1, 101, at::kFloat);
  return {line / (3.0 * member + round), at::Tensor(),
          (line * 0.7 * member).reshape({10, 10})};
}

Tensors moved_to(const Tensors& tensors, const c10::Device& device) {
  Tensors moved;
  for (const at::Tensor& tensor : tensors)
    moved.push_back(tensor.defined() ? tensor.to(device) : tensor);
  return moved;
}

TEST_F(NcclGroups, SumRoundAfterRound) {
  std::array<std::vector<Tensors>, 2> sums;
  const auto errors = errors_of([&](Group& group, const c10::Device& device) {
    for (int round = 1; round <= 3; ++round) {
      group.start_sum(moved_to(values_of(group.member(), round), device));
      sums.at(static_cast<std::size_t>(group.member()) - 1)
          .push_back(moved_to(group.finish_sum(), at::kCPU));
    }
  });
  EXPECT_EQ(errors, (std::array<std::string, 2>()));
  for (const auto& of_member : sums) {
    ASSERT_EQ(of_member.size(), 3U);
    for (int round = 1; round <= 3; ++round) {
      const Tensors& sum = of_member.at(static_cast<std::size_t>(round) - 1);
      const Tensors first = values_of(1, round);
      const Tensors second = values_of(2, round);
      EXPECT_TRUE(at::equal(sum.at(0), first[0] + second[0]));
      EXPECT_FALSE(sum.at(1).defined());
      EXPECT_TRUE(at::equal(sum.at(2), first[2] + second[2]));
      EXPECT_FALSE(at::equal(sum.at(2), first[2]));
    }
  }
  EXPECT_EQ(aborted.load(), 0);
  EXPECT_EQ(destroyed.load(), 2);
}

TEST_F(NcclGroups, LayoutsThatDifferAreAnErrorAndEndTheCommunicator) {
  const auto errors = errors_of([](Group& group, const c10::Device& device) {
    const at::Tensor all = at::ones({100}, at::kFloat).to(device);
    group.start_sum({group.member() == 1 ? all : all.reshape({10, 10})});
    group.finish_sum();
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("lay out what they sum differently"),
              std::string::npos)
        << error;
  EXPECT_EQ(aborted.load(), 2);
}

TEST_F(NcclGroups, AReplicaThatHasEndedIsAnErrorOfTheOther) {
  const auto errors = errors_of([](Group& group, const c10::Device& device) {
    if (group.member() == 2) return;
    group.start_sum({at::ones({100}, at::kFloat).to(device)});
    group.finish_sum();
  });
  EXPECT_NE(errors[0], "");  // found by the send, or by the wait
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(aborted.load(), 1);
}

TEST_F(NcclGroups, WhatNcclTellsLaterIsAnError) {
  async_error = 2;
  const auto errors = errors_of([](Group& group, const c10::Device& device) {
    group.start_sum({at::ones({100}, at::kFloat).to(device)});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "block 1: NCCL: a rank was lost");
  EXPECT_EQ(aborted.load(), 2);
}

TEST_F(NcclGroups, TwoReplicasOnOneGpuAreRefused) {
  const auto errors = errors_of([](Group&, const c10::Device&) {}, true);
  for (const std::string& error : errors)
    EXPECT_NE(error.find("are on one GPU"), std::string::npos) << error;
}

}  // namespace sluice::simcuda::nccl_group_test
