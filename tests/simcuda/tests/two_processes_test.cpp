// CUDA IPC between two processes: what is ordered is right, each planted
// mistake is found in the process that makes it, and what CUDA refuses is
// refused. The second process is a child of this one, which LibTorch's threads
// don't follow: it uses little of it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/gpu/current_device.h"
#include "tests/simcuda/machine.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::two_processes_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kBytes = 4096;
const c10::Device kOther(c10::DeviceType::CUDA, 1);

/// A child that works, and says whether all was right: 0, or how many reports
/// it has; 99 where something was thrown.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : process_(::fork()) {
    if (process_ != 0) return;
    int status = 99;
    try {
      work();
      status = static_cast<int>(take_reports().size());
    } catch (const std::exception& error) {
      ::perror(error.what());
    }
    ::_exit(status);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int end() const {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return WEXITSTATUS(status);
  }

 private:
  pid_t process_;
};

/// As a slot of a link has it.
struct Slot {
  IpcHandle memory;
  IpcHandle ready;
  IpcHandle taken;
};

/// What the two do, but for what is left out.
struct HandOverSteps {
  bool record_ready = true;
  bool wait_ready = true;
  bool record_taken = true;
  bool wait_taken = true;
  bool hand_over = true;
};

class TwoProcesses : public SimulatedGpu {
 protected:
  void SetUp() override {
    SimulatedGpu::SetUp();
    if (!has_cuda_ipc(kGpu)) GTEST_SKIP() << "built with nvcc";
    forget_processes();
  }

  /// Sends twice through the same memory; the receiver takes the first.
  void send_and_receive(const HandOverSteps& kept,
                        const c10::Device& receives) {
    const CurrentDevice on(kGpu);
    const auto device = cuda_ipc_device(kGpu);
    std::byte* const source = device->allocate(kBytes);
    std::byte* const memory = device->allocate(kBytes);
    const auto ready = device->make_event();
    const auto taken = device->make_event();
    const Slot slot{device->handle_of_memory(memory),
                    device->handle_of_event(ready),
                    device->handle_of_event(taken)};
    const auto leaving = device->current();
    device->copy(leaving, memory, source, kBytes);
    if (kept.record_ready) device->record(leaving, ready);
    receiver_ = Child([&] { receive(slot, kept, receives); }).end();
    if (kept.wait_taken) device->wait(leaving, taken);
    device->copy(leaving, memory, source, kBytes);
    device->finish(leaving);
  }

  static void receive(const Slot& slot, const HandOverSteps& kept,
                      const c10::Device& receives) {
    forget_contexts();
    const CurrentDevice on(receives);
    const auto device = cuda_ipc_device(receives);
    std::byte* const memory = device->open_memory(slot.memory);
    const auto ready = device->open_event(slot.ready);
    const auto taken = device->open_event(slot.taken);
    std::byte* const result = device->allocate(kBytes);
    const auto arriving = device->arriving();
    const Buffer own = device->allocate_arriving(kBytes);
    if (kept.wait_ready) device->wait(arriving, ready);
    device->copy(arriving, own.data, memory, kBytes);
    if (kept.record_taken) device->record(arriving, taken);
    if (kept.hand_over) device->hand_to_current(taken, own);
    if (kept.record_taken)  // what computes reads it
      device->copy(device->current(), result, own.data, kBytes);
    device->finish(device->current());
    device->finish(arriving);
    device->close_memory(memory);
    device->close_event(ready);
    device->close_event(taken);
    const auto neighbours = static_cast<std::size_t>(1 - receives.index());
    SLUICE_CHECK(!machine().contexts.asked.at(neighbours),
                 "CUDA is started on the neighbour's GPU");
  }

  int receiver_ = -1;  // of the child: its reports
};

TEST_F(TwoProcesses, InOrderAreRight) {
  send_and_receive({}, kGpu);
  EXPECT_EQ(receiver_, 0);
  EXPECT_THAT(take_reports(), IsEmpty());
}

/// Everything is opened on the receiver's GPU, also where that is another one.
TEST_F(TwoProcesses, OnTwoGpusAreRightAndStartCudaOnTheirOwn) {
  send_and_receive({}, kOther);
  EXPECT_EQ(receiver_, 0);
  EXPECT_THAT(take_reports(), IsEmpty());
}

TEST_F(TwoProcesses, ASenderThatRecordsNothingIsFoundByTheReceiver) {
  send_and_receive({.record_ready = false}, kOther);
  EXPECT_EQ(receiver_, 1);
}

TEST_F(TwoProcesses, AReceiverThatDoesNotWaitIsFound) {
  send_and_receive({.wait_ready = false}, kGpu);
  EXPECT_EQ(receiver_, 1);
}

TEST_F(TwoProcesses, AReceiverThatRecordsNothingIsFoundByTheSender) {
  send_and_receive({.record_taken = false}, kOther);
  EXPECT_EQ(receiver_, 0);
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("of another process")));
}

TEST_F(TwoProcesses, ASenderThatDoesNotWaitIsFound) {
  send_and_receive({.wait_taken = false}, kGpu);
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("of another process")));
}

/// One event stands for both: that the memory may be written anew, and that
/// what came may be read.
TEST_F(TwoProcesses, AReceiverThatComputesWithWhatIsStillArrivingIsFound) {
  send_and_receive({.hand_over = false}, kOther);
  EXPECT_EQ(receiver_, 1);
  EXPECT_THAT(take_reports(), IsEmpty());
}

// What is refused.

TEST_F(TwoProcesses, AProcessOpensNothingOfItsOwn) {
  const auto device = cuda_ipc_device(kGpu);
  const IpcHandle memory = device->handle_of_memory(device->allocate(1));
  const IpcHandle event = device->handle_of_event(device->make_event());
  EXPECT_THROW(device->open_memory(memory), LinkError);
  EXPECT_THROW(device->open_event(event), LinkError);
  EXPECT_THROW(device->open_memory(event), LinkError);
}

TEST_F(TwoProcesses, MemoryIsOpenedOnceAtATime) {
  const auto device = cuda_ipc_device(kGpu);
  const IpcHandle memory = device->handle_of_memory(device->allocate(1));
  const Child child([&] {
    const auto here = cuda_ipc_device(kGpu);
    std::byte* const opened = here->open_memory(memory);
    EXPECT_THROW(here->open_memory(memory), LinkError);
    here->close_memory(opened);
    here->close_memory(here->open_memory(memory));
    SLUICE_CHECK(!testing::Test::HasFailure(), "it was opened twice");
  });
  EXPECT_EQ(child.end(), 0);
}

TEST_F(TwoProcesses, WithoutPeerAccessNoOtherGpusMemoryIsOpened) {
  const auto device = cuda_ipc_device(kGpu);
  const IpcHandle memory = device->handle_of_memory(device->allocate(1));
  const Child child([&] {
    ::setenv("SIMCUDA_PEERS", "0", /*replace=*/1);
    const CurrentDevice on(kOther);
    const auto here = cuda_ipc_device(kOther);
    EXPECT_THROW(here->open_memory(memory), LinkError);
    EXPECT_FALSE(here->may_reach(cuda_ipc_device(kGpu)->id()));
    SLUICE_CHECK(!testing::Test::HasFailure(), "it was opened");
  });
  EXPECT_EQ(child.end(), 0);
}

/// As a worker's neighbour may do at a run's end.
TEST_F(TwoProcesses, MemoryOfAProcessThatHasEndedIsNotToBeRead) {
  std::array<int, 2> there = {};
  std::array<int, 2> opened = {};
  ASSERT_EQ(::pipe(there.data()), 0);
  ASSERT_EQ(::pipe(opened.data()), 0);
  const Child child([&] {
    const auto owner = cuda_ipc_device(kGpu);
    const IpcHandle memory = owner->handle_of_memory(owner->allocate(1));
    char byte = 0;
    SLUICE_CHECK(::write(there[1], &memory, sizeof memory) ==
                         static_cast<ssize_t>(sizeof memory) &&
                     ::read(opened[0], &byte, 1) == 1,
                 "a pipe broke");
  });
  const auto device = cuda_ipc_device(kGpu);
  IpcHandle memory;
  ASSERT_EQ(::read(there[0], &memory, sizeof memory),
            static_cast<ssize_t>(sizeof memory));
  std::byte* const theirs = device->open_memory(memory);
  std::byte* const own = device->allocate(kBytes);
  ASSERT_EQ(::write(opened[1], "x", 1), 1);
  EXPECT_EQ(child.end(), 0);
  const auto arriving = device->arriving();
  device->copy(arriving, own, theirs, kBytes);
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("has ended")));
  device->finish(arriving);
  device->close_memory(theirs);
  for (const int file : {there[0], there[1], opened[0], opened[1]})
    ::close(file);
}

TEST_F(TwoProcesses, ErrorsAreToldAndNotLeftBehind) {
  const auto device = cuda_ipc_device(kGpu);
  EXPECT_THROW(device->open_memory({}), LinkError);
  EXPECT_EQ(last_error(), 0);
  EXPECT_THAT(take_reports(), IsEmpty());
}

// Memory that runs out.

/// What a test has allocated on the first GPU is all that there is.
struct NoMoreMemory {
  NoMoreMemory() { limit_memory(taken_memory(0)); }
  ~NoMoreMemory() { limit_memory(SIZE_MAX); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;
};

TEST_F(TwoProcesses, MemoryThatLibTorchOnlyKeepsIsHadFromIt) {
  const CurrentDevice on(kGpu);
  const auto device = cuda_ipc_device(kGpu);
  pinned(0, std::int64_t{1} << 20).to(kGpu);  // and released
  const NoMoreMemory limit;
  EXPECT_NE(device->allocate(kBytes), nullptr);
}

TEST_F(TwoProcesses, MemoryThatIsInUseIsNot) {
  const CurrentDevice on(kGpu);
  const auto device = cuda_ipc_device(kGpu);
  const at::Tensor used = pinned(0, std::int64_t{1} << 20).to(kGpu);
  const NoMoreMemory limit;
  EXPECT_EQ(device->allocate(std::size_t{1} << 30), nullptr);
  EXPECT_TRUE(used.defined());
}

}  // namespace sluice::simcuda::two_processes_test
