// CUDA IPC between two processes that share a GPU. The second one is this
// program again, with one test to do: a process can't open what it made itself,
// and CUDA doesn't survive a fork.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/device.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/gpu/pinned_buffers.h"
#include "lib/tensors/gpu/registered_memory.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "tests/experiments/helpers/program.h"
#include "tests/transport/test_secret.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/rendezvous.h"
#include "transport/shared/ipc_link.h"
#include "transport/shared/shared_memory.h"

namespace sluice::ipc_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);
constexpr const char* kPeerAddress = "SLUICE_IPC_PEER";  // of its launcher
constexpr const char* kPeerWay = "SLUICE_IPC_WAY";
constexpr std::size_t kCapacity = 4;
constexpr std::int64_t kFigureElements = std::int64_t{1} << 21;  // 8 MiB
constexpr std::size_t kPinnedSlots = kCapacity + 2;
constexpr std::size_t kPinnedBytes = kFigureElements * sizeof(float);

enum class Way { ipc, host, pinned };

Way way_named(const std::string& name) {
  if (name == "ipc") return Way::ipc;
  return name == "pinned" ? Way::pinned : Way::host;
}
const char* name_of(Way way) {
  if (way == Way::ipc) return "ipc";
  return way == Way::pinned ? "pinned" : "host";
}

RendezvousOptions options(Way way = Way::ipc) {
  RendezvousOptions options{.secret = test_secret(),
                            .control = {.up = kCapacity, .down = kCapacity},
                            .transport = "shared_memory",
                            .buffers = pinned_buffers(kGpu)};
  options.shared_memory = with_parcels(options.shared_memory, kCapacity);
  if (way != Way::pinned) return options;
  options.shared_memory.slots = kPinnedSlots;
  options.shared_memory.slot_bytes = kPinnedBytes;
  options.shared_memory.slots_on_demand = true;
  return options;
}

/// Slots of shared memory, which both ends pin.
BufferSource pinned_slots(const Link& link) {
  link.sender->send({});
  link.receiver->receive();  // so the peer's memory is here
  const PinMemory pin = [](std::span<std::byte> memory, std::string& why) {
    return registered_memory(kGpu, memory, why);
  };
  EXPECT_EQ(pin_slots(*link.sender, kPinnedSlots, pin), "");
  EXPECT_EQ(pin_slots(*link.receiver, kPinnedSlots, pin), "");
  return free_slots_of(*link.sender, kPinnedSlots);
}

/// As a worker has it.
Link around(Link link, Way way, std::shared_ptr<DeviceTraffic> traffic) {
  const BufferSource slots = slots_of(*link.sender);
  BufferSource pinned = way == Way::pinned ? pinned_slots(link) : nullptr;
  link.sender =
      staged_sender(std::move(link.sender), traffic, std::move(pinned));
  if (way != Way::ipc) return link;
  const std::shared_ptr<IpcDevice> device = cuda_ipc_device(kGpu);
  link.sender = ipc_sender(std::move(link.sender), slots,
                           options().shared_memory.slots, device, traffic);
  link.receiver = ipc_receiver(std::move(link.receiver), device, device->id());
  return link;
}

/// The tensors as they are used on the GPU.
Tensors received(const Message& message) {
  return unpack(message, "h", nullptr, kGpu);
}

/// Answers an activation with one more, and a gradient with its first number,
/// until nothing comes.
void echo(Link link) {
  while (const std::optional<Message> message = link.receiver->receive()) {
    Tensors tensors = received(*message);
    for (at::Tensor& tensor : tensors)
      tensor = message->kind == MessageKind::activation
                   ? tensor + 1
                   : tensor.flatten().slice(0, 0, 1).clone();
    Message answer;
    pack(tensors, "h", answer);
    link.sender->send(std::move(answer));
  }
  link.sender->close();
}

TEST(IpcPeer, PlaysItsPartWhenItIsAsked) {
  const char* const address = std::getenv(kPeerAddress);
  if (address == nullptr) GTEST_SKIP() << "it is the others' second process";
  const Way way = way_named(std::getenv(kPeerWay));
  IoThread io;
  EXPECT_NO_THROW(echo(around(join(io, address, 1, {}, options(way)).control,
                              way, std::make_shared<DeviceTraffic>())));
}

class Ipc : public testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
    if (!has_cuda_ipc(kGpu)) GTEST_SKIP() << "no CUDA IPC";
  }

  void start(Way way) {
    traffic_ = std::make_shared<DeviceTraffic>();
    Rendezvous rendezvous(io_, options(way));
    const std::string command = fmt::format(
        "GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 {}={} {}={} {} "
        "--gtest_filter=IpcPeer.*",
        kPeerAddress, rendezvous.address(), kPeerWay, name_of(way),
        std::filesystem::read_symlink("/proc/self/exe").string());
    peer_ = std::jthread([this, command] { outcome_ = shell(command); });
    link_ =
        around(std::move(rendezvous.accept_workers().front()), way, traffic_);
  }
  void stop() {
    link_.sender->close();
    while (link_.receiver->receive()) {
    }
    peer_.join();
    EXPECT_EQ(outcome_.status, 0) << outcome_.text;
    link_ = {};
  }

  Tensors answer_to(const Tensors& tensors,
                    MessageKind kind = MessageKind::activation) {
    send(tensors, kind);
    return received(*link_.receiver->receive());
  }
  void send(const Tensors& tensors,
            MessageKind kind = MessageKind::activation) {
    Message message{.kind = kind};
    pack(tensors, "h", message);
    link_.sender->send(std::move(message));
  }

  IoThread io_;
  std::shared_ptr<DeviceTraffic> traffic_;
  Outcome outcome_;
  std::jthread peer_;
  Link link_;
};

at::Tensor numbers(at::IntArrayRef sizes) {
  return on_device(
      at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1)), kGpu);
}

TEST_F(Ipc, KeepsBitsShapesAndTypes) {
  start(Way::ipc);
  const at::Tensor maps =
      numbers({4, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor halves = numbers({7}).to(at::kHalf);
  const at::Tensor repeated = numbers({6, 1}).expand({6, 9});
  const at::Tensor none = at::empty({0, 3}, at::TensorOptions(kGpu));
  const Tensors sent = {maps, halves, repeated, none};
  const Tensors back = answer_to(sent);
  ASSERT_EQ(back.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(back[i].device(), kGpu);
    EXPECT_EQ(back[i].scalar_type(), sent[i].scalar_type());
    EXPECT_TRUE(back[i].equal(sent[i] + 1)) << i;
  }
  EXPECT_EQ(back[0].strides(), maps.strides());
  EXPECT_EQ(traffic_->by_ipc, 3);
  EXPECT_EQ(traffic_->through_host, 0);
  stop();
}

/// Every message is computed just before it is sent, and its memory released at
/// once: what is missing of the order of streams shows. Sizes grow.
TEST_F(Ipc, KeepsTheOrderOfWhatIsComputedSentAndComputedAgain) {
  start(Way::ipc);
  constexpr int kMessages = 200;
  std::int64_t wrong = 0;
  const auto check = [&](int number) {
    const at::Tensor back = received(*link_.receiver->receive()).at(0);
    wrong += (back != number + 41).sum().item<std::int64_t>();
  };
  for (int i = 0; i < kMessages; ++i) {
    at::Tensor sum = at::full({1000 + 5000 * i}, static_cast<double>(i),
                              at::TensorOptions(kGpu));
    for (int j = 0; j < 40; ++j) sum = sum + 1;
    send({sum});
    sum = at::Tensor();
    at::full({1000 + 5000 * i}, -1.0, at::TensorOptions(kGpu));
    if (i >= 2) check(i - 2);
  }
  check(kMessages - 2);
  check(kMessages - 1);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(traffic_->by_ipc, kMessages);
  EXPECT_EQ(traffic_->through_host, 0);
  stop();
}

TEST_F(Ipc, StagingGivesTheSameBits) {
  start(Way::host);
  const at::Tensor sent = numbers({333, 77});
  const at::Tensor repeated = numbers({6, 1}).expand({6, 9});
  const Tensors back = answer_to({sent, repeated});
  EXPECT_TRUE(back.at(0).equal(sent + 1));
  EXPECT_TRUE(back.at(1).equal(repeated + 1));
  EXPECT_EQ(traffic_->through_host, 2);
  stop();
}

/// Sizes above and below those that go in slots.
TEST_F(Ipc, PinnedSlotsGiveTheSameBits) {
  start(Way::pinned);
  const at::Tensor maps =
      numbers({40, 30, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const Tensors sent = {numbers({333, 77}), numbers({6, 1}).expand({6, 9}),
                        maps, numbers({1 << 20})};
  const Tensors back = answer_to(sent);
  ASSERT_EQ(back.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(back[i].equal(sent[i] + 1)) << i;
  EXPECT_EQ(traffic_->through_host, 4);
  stop();
}

/// Each slot is used again as soon as no copy reads it.
TEST_F(Ipc, PinnedSlotsKeepTheOrderOfWhatIsComputedAndSent) {
  start(Way::pinned);
  constexpr int kMessages = 60;
  std::int64_t wrong = 0;
  const auto check = [&](int number) {
    const at::Tensor back = received(*link_.receiver->receive()).at(0);
    wrong += (back != number + 1).sum().item<std::int64_t>();
  };
  for (int i = 0; i < kMessages; ++i) {
    send({at::full({20'000 + 500 * i}, static_cast<double>(i),
                   at::TensorOptions(kGpu))});
    if (i >= 2) check(i - 2);
  }
  check(kMessages - 2);
  check(kMessages - 1);
  EXPECT_EQ(wrong, 0);
  stop();
}

void synchronize() {
  c10::impl::VirtualGuardImpl(kGpu.type()).synchronizeDevice(kGpu.index());
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// GB/s of tensors of 8 MiB, from when the first is sent until the peer has
/// all.
TEST_F(Ipc, IsFasterThanStaging) {
  constexpr int kMessages = 200;
  const at::Tensor tensor =
      at::ones({kFigureElements}, at::TensorOptions(kGpu));
  const double bytes = kMessages * static_cast<double>(tensor.nbytes());
  const auto stream = [&] {
    for (int i = 0; i < kMessages; ++i) {
      send({tensor}, MessageKind::gradient);
      if (i >= 2) link_.receiver->receive();
    }
    link_.receiver->receive();
    received(*link_.receiver->receive()).at(0).cpu();
  };
  std::map<Way, double> rate;
  for (const Way way : {Way::ipc, Way::host, Way::pinned}) {
    start(way);
    stream();  // memory is pinned, handles are opened
    rate[way] = bytes / seconds(stream) / 1e9;
    stop();
  }
  at::Tensor copy = tensor.clone();
  synchronize();
  const double plain = bytes / 1e9 / seconds([&] {
                         for (int i = 0; i < kMessages; ++i) copy.copy_(tensor);
                         synchronize();
                       });
  std::printf(
      "CUDA IPC %.1f GB/s: %.2f of staging (%.1f; in pinned slots %.1f), %.2f "
      "of a plain copy on the device (%.1f)\n",
      rate[Way::ipc], rate[Way::ipc] / rate[Way::host], rate[Way::host],
      rate[Way::pinned], rate[Way::ipc] / plain, plain);
  EXPECT_GT(rate[Way::ipc], rate[Way::host]);
}

TEST_F(Ipc, WhatIsNoHandleIsOneClearError) {
  const std::shared_ptr<IpcDevice> device = cuda_ipc_device(kGpu);
  EXPECT_THROW(device->open_memory({}), LinkError);
  EXPECT_THROW(device->open_event({}), LinkError);
  // The error is reported once: LibTorch doesn't find it later.
  EXPECT_EQ(numbers({3}).cpu().numel(), 3);
}

}  // namespace sluice::ipc_test
