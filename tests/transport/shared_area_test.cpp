#include "transport/shared/shared_area.h"

#include <cstring>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "transport/shared/shared_slots.h"

namespace sluice::shared_area_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr AreaShape kShape{
    .ring_bytes = 64 << 10, .slots = 2, .slot_bytes = 4096};

TEST(SharedArea, IsTheSameMemoryForBothEnds) {
  FileDescriptor file;
  const auto mine = SharedArea::make(kShape, file);
  const auto theirs = SharedArea::adopt(kShape, file);
  std::memcpy(mine->ring().data(), "ring", 4);
  std::memcpy(mine->slot(1), "slot", 4);
  mine->words().tail = 7;
  EXPECT_EQ(std::memcmp(theirs->ring().data(), "ring", 4), 0);
  EXPECT_EQ(std::memcmp(theirs->slot(1), "slot", 4), 0);
  EXPECT_EQ(theirs->words().tail, 7u);
}

TEST(SharedArea, StaysWhenItsFileIsClosed) {
  FileDescriptor file;
  const auto area = SharedArea::make(kShape, file);
  file = FileDescriptor();
  area->slot(0)[0] = std::byte{5};
  EXPECT_EQ(area->slot(0)[0], std::byte{5});
}

TEST(SharedArea, CantBeCutOffByAPeer) {
  FileDescriptor file;
  const auto area = SharedArea::make(kShape, file);
  EXPECT_NE(::ftruncate(file.get(), 0), 0);
  EXPECT_NE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

constexpr AreaShape kLargeSlots{
    .ring_bytes = 64 << 10, .slots = 4, .slot_bytes = 1 << 20};

std::uint64_t bytes_taken(const FileDescriptor& file) {
  struct stat status = {};
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST(SharedArea, TakesTheMemoryOfItsSlotsWhenItIsAskedFor) {
  FileDescriptor whole;
  const auto now = SharedArea::make(kLargeSlots, whole);
  EXPECT_GE(bytes_taken(whole), area_bytes(kLargeSlots));
  FileDescriptor file;
  const auto mine = SharedArea::make(kLargeSlots, file, SlotPages::on_demand);
  const auto theirs = SharedArea::adopt(kLargeSlots, file);
  const std::uint64_t least = bytes_taken(file);
  EXPECT_LT(least, kLargeSlots.slot_bytes);
  mine->slot(3)[0] = std::byte{5};  // its first page it has
  EXPECT_EQ(bytes_taken(file), least);
  EXPECT_EQ(mine->take_slots(2), "");
  EXPECT_GT(bytes_taken(file), 2 * kLargeSlots.slot_bytes);
  EXPECT_LT(bytes_taken(file), 3 * kLargeSlots.slot_bytes);
  EXPECT_EQ(theirs->take_slots(100), "");
  EXPECT_GE(bytes_taken(file), area_bytes(kLargeSlots));
  EXPECT_EQ(theirs->slot(3)[0], std::byte{5});
}

TEST(SharedArea, KeepsItsUserWhileItIsMapped) {
  FileDescriptor file;
  auto area = SharedArea::make(kShape, file);
  std::byte* const start = area->slot(0);
  bool was_mapped = false;
  area->keep({start, [&was_mapped](std::byte* memory) {
                was_mapped = memory[0] == std::byte{7};
              }});
  area->slot(0)[0] = std::byte{7};
  EXPECT_FALSE(was_mapped);
  area.reset();
  EXPECT_TRUE(was_mapped);
}

TEST(SharedArea, IsNotInheritedByChildren) {
  FileDescriptor file;
  const auto area = SharedArea::make(kShape, file);
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedArea, RefusesARingThatIsNoPowerOfTwo) {
  FileDescriptor file;
  EXPECT_THAT([&] { SharedArea::make({.ring_bytes = 100'000}, file); },
              ThrowsMessage<UserError>(HasSubstr("ring of 100000 bytes")));
}

TEST(SharedArea, RefusesAShapeThatAPeerMadeUp) {
  FileDescriptor file;
  SharedArea::make(kShape, file);
  AreaShape huge = kShape;
  huge.slots = std::uint64_t{1} << 60;
  EXPECT_THROW(SharedArea::adopt(huge, file), LinkError);
}

TEST(SharedArea, RefusesAFileOfAnotherSize) {
  FileDescriptor file;
  SharedArea::make(kShape, file);
  AreaShape larger = kShape;
  larger.slots = 3;
  EXPECT_THAT([&] { SharedArea::adopt(larger, file); },
              ThrowsMessage<LinkError>(HasSubstr("instead of")));
}

TEST(SharedArea, RefusesAFileWhoseSizeCouldChange) {
  const FileDescriptor file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(area_bytes(kShape))), 0);
  EXPECT_THAT([&] { SharedArea::adopt(kShape, file); },
              ThrowsMessage<LinkError>(HasSubstr("not sealed")));
}

// Issue 18, item 11: where vm.memfd_noexec is set, the kernel adds a seal of
// its own.
TEST(SharedArea, TakesAFileThatIsNeverExecuted) {
  constexpr int kSealExec = 0x0020;
  const FileDescriptor sealed(
      ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sealed.get(), static_cast<off_t>(area_bytes(kShape))),
            0);
  ASSERT_EQ(::fchmod(sealed.get(), 0600), 0);
  if (::fcntl(sealed.get(), F_ADD_SEALS, kSealExec) != 0)
    GTEST_SKIP() << "this kernel knows no such seal";
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS,
                    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            0);
  EXPECT_TRUE(SharedArea::adopt(kShape, sealed));
}

// The sender's pool, and the receiver's view of the same area.
class Slots : public testing::Test {
 protected:
  bool is_slot(const Buffer& buffer) const {
    return buffer.data == area_->slot(0) || buffer.data == area_->slot(1);
  }

  FileDescriptor file_;
  std::shared_ptr<SharedArea> area_ = SharedArea::make(kShape, file_);
  std::shared_ptr<SlotPool> pool_ = std::make_shared<SlotPool>(area_);
};

TEST_F(Slots, AreDifferentAndAligned) {
  const Buffer one = pool_->take(100);
  const Buffer two = pool_->take(4096);
  EXPECT_TRUE(is_slot(one));
  EXPECT_TRUE(is_slot(two));
  EXPECT_NE(one.data, two.data);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data) % kAlignment, 0u);
}

TEST_F(Slots, AreReplacedByOrdinaryMemoryWhenAllAreTaken) {
  const Buffer one = pool_->take(1);
  const Buffer two = pool_->take(1);
  const Buffer three = pool_->take(1);
  EXPECT_FALSE(is_slot(three));
  EXPECT_FALSE(pool_->lend(three).has_value());
}

TEST_F(Slots, AreReplacedByOrdinaryMemoryForLargerTensors) {
  EXPECT_FALSE(is_slot(pool_->take(4097)));
}

TEST_F(Slots, AreFreeAgainWhenNothingWasSent) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(is_slot(pool_->take(1)));
}

TEST_F(Slots, AreNotFreeWhileTheReceiverHasThem) {
  std::byte* data = nullptr;
  {
    const Buffer sent = pool_->take(1);
    data = sent.data;
    ASSERT_EQ(pool_->lend(sent), 0u);
  }
  Buffer borrowed = borrow_slot(area_, 0, 1);
  EXPECT_EQ(borrowed.data, data);
  EXPECT_NE(pool_->take(1).data, data);
  borrowed = {};
  EXPECT_EQ(pool_->take(1).data, data);
}

TEST_F(Slots, SentTwiceComeBackTwice) {
  const auto lend_twice = [&] {
    const Buffer sent = pool_->take(1);
    pool_->lend(sent);
    pool_->lend(sent);
    return sent.data;
  };
  std::byte* const data = lend_twice();
  Buffer one = borrow_slot(area_, 0, 1);
  Buffer two = borrow_slot(area_, 0, 1);
  one = {};
  EXPECT_NE(pool_->take(1).data, data);
  two = {};
  EXPECT_EQ(pool_->take(1).data, data);
}

TEST_F(Slots, OutliveTheirPool) {
  Buffer taken = pool_->take(1);
  Buffer borrowed = borrow_slot(area_, 1, 1);
  pool_.reset();
  area_.reset();
  taken.data[0] = std::byte{1};
  EXPECT_EQ(borrowed.data[0], std::byte{0});
}

TEST_F(Slots, KnowTheirBuffersByTheirStart) {
  Buffer inside = pool_->take(4096);
  inside.data += 64;
  inside.bytes -= 64;
  EXPECT_FALSE(pool_->lend(inside).has_value());
}

}  // namespace sluice::shared_area_test
