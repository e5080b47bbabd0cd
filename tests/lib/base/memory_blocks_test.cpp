#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "lib/base/buffer.h"
#include "lib/base/memory/blocks.h"
#include "lib/base/memory/size_class.h"

namespace sluice::memory_blocks_test {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Sizes that no other test of this file uses have lists of their own.
constexpr std::size_t kSmall = 3000;
constexpr std::size_t kBig = 5 * kMiB;

void release(void* data) {
  EXPECT_TRUE(free_block(data));
}

template <class Action>
void in_another_thread(Action action) {
  std::thread(action).join();
}

TEST(Blocks, StartOnAnAlignedAddress) {
  for (std::size_t bytes = 1; bytes < 64 * kMiB; bytes = bytes * 3 / 2 + 1) {
    void* const data = allocate_block(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kAlignment, 0u) << bytes;
    release(data);
  }
}

TEST(Blocks, CanBeWrittenToTheirEnd) {
  for (std::size_t bytes = 1; bytes < 64 * kMiB; bytes = bytes * 2 + 1) {
    void* const data = allocate_block(bytes);
    std::memset(data, 1, bytes);
    release(data);
  }
}

TEST(Blocks, NeverStartOnAPage) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) {
    blocks.push_back(allocate_block(64));
    EXPECT_NE(reinterpret_cast<std::uintptr_t>(blocks.back()) % 4096, 0u);
  }
  for (void* const data : blocks) release(data);
}

TEST(Blocks, BlocksOfNoBytesAreNull) {
  EXPECT_EQ(allocate_block(0), nullptr);
  EXPECT_TRUE(free_block(nullptr));
}

TEST(Blocks, ComeBackAfterTheyWereFreed) {
  for (const std::size_t bytes : {kSmall, kBig}) {
    void* const data = allocate_block(bytes);
    release(data);
    EXPECT_EQ(allocate_block(bytes), data);
    EXPECT_NE(allocate_block(bytes), data);  // both stay in use
  }
}

TEST(Blocks, BlocksOfASimilarSizeComeBackToo) {
  constexpr std::size_t kBytes = 9 * kMiB;
  ASSERT_EQ(size_class_of(kBytes), size_class_of(kBytes - 1000));
  void* const data = allocate_block(kBytes);
  release(data);
  void* const similar = allocate_block(kBytes - 1000);
  EXPECT_EQ(similar, data);
  release(similar);
}

TEST(Blocks, FreedByAnotherThreadReturnHome) {
  for (const std::size_t bytes : {kSmall + 1000, kBig + kMiB}) {
    void* const data = allocate_block(bytes);
    in_another_thread([&] {
      release(allocate_block(1));  // now it has an arena
      release(data);
      void* const other = allocate_block(bytes);
      EXPECT_NE(other, data);
      release(other);
    });
    void* const again = allocate_block(bytes);
    EXPECT_EQ(again, data);
    release(again);
  }
}

TEST(Blocks, BlocksOfAThreadThatEndedGoToTheNext) {
  void* first = nullptr;
  void* second = nullptr;
  in_another_thread([&] { release(first = allocate_block(kBig + 2 * kMiB)); });
  in_another_thread([&] { release(second = allocate_block(kBig + 2 * kMiB)); });
  EXPECT_EQ(second, first);
}

TEST(Blocks, OutliveTheirThread) {
  void* data = nullptr;
  in_another_thread([&] {
    data = allocate_block(kSmall);
    std::memset(data, 7, kSmall);
  });
  EXPECT_EQ(static_cast<char*>(data)[kSmall - 1], 7);
  release(data);
}

void use_memory() {
  for (int i = 0; i < 1000; ++i) {
    void* const data = allocate_block(kSmall);
    std::memset(data, i, kSmall);
    release(data);
  }
}

// Constructed before the thread's arena, so destroyed after it was given away:
// to the thread that starts then, say. ThreadSanitizer sees when both use it.
struct UsesMemoryAtThreadEnd {
  void* held = nullptr;
  ~UsesMemoryAtThreadEnd() {
    use_memory();
    std::thread next(use_memory);
    use_memory();
    release(held);
    next.join();
  }
};

TEST(Blocks, MayBeUsedWhileAThreadEnds) {
  in_another_thread([] {
    static thread_local UsesMemoryAtThreadEnd user;
    user.held = allocate_block(kSmall);
  });
}

TEST(Blocks, BlocksOfOtherAllocatorsAreNotFreed) {
  void* const foreign = std::aligned_alloc(kAlignment, 4096);
  EXPECT_FALSE(free_block(foreign));
  std::free(foreign);
  // On the first byte of a page nothing before it may be read.
  void* const page = std::aligned_alloc(4096, 4096);
  EXPECT_FALSE(free_block(page));
  std::free(page);
  EXPECT_FALSE(free_block(static_cast<char*>(allocate_block(100)) + 1));
}

TEST(BlocksDeathTest, FreedTwiceEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* const data = allocate_block(kSmall);
  EXPECT_DEATH(
      {
        release(data);
        release(data);
      },
      "freed twice");
  release(data);
}

TEST(Blocks, ThatNobodyCanHaveAreRefused) {
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(allocate_block(kAll), std::bad_alloc);
  EXPECT_THROW(allocate_block(kAll - 63), std::bad_alloc);
  EXPECT_THROW(allocate_block(kLargestBlock + 1), std::bad_alloc);
  EXPECT_THROW(allocate_block(kLargestBlock), std::bad_alloc);
}

TEST(Blocks, WorkAfterARefusal) {
  EXPECT_THROW(allocate_block(kLargestBlock), std::bad_alloc);
  void* const data = allocate_block(kBig);
  std::memset(data, 1, kBig);
  release(data);
}

TEST(ReleaseCachedMemory, GivesBigBlocksBack) {
  void* const kept = allocate_block(40 * kMiB);
  release(allocate_block(80 * kMiB));
  EXPECT_GT(big_blocks().mapped_bytes, big_blocks().live_bytes);
  release_cached_memory();
  EXPECT_EQ(big_blocks().mapped_bytes, big_blocks().live_bytes);
  EXPECT_GE(big_blocks().live_bytes, 40 * kMiB);
  release(kept);
}

TEST(ReleaseCachedMemory, GivesBackWhatEndedThreadsLeft) {
  release_cached_memory();
  const std::size_t before = big_blocks().mapped_bytes;
  in_another_thread([] { release(allocate_block(70 * kMiB)); });
  EXPECT_GE(big_blocks().mapped_bytes, before + 70 * kMiB);
  release_cached_memory();
  EXPECT_EQ(big_blocks().mapped_bytes, before);
}

TEST(ReleaseCachedMemory, GivesBackWhatOthersFreed) {
  release_cached_memory();
  const std::size_t before = big_blocks().mapped_bytes;
  void* const data = allocate_block(70 * kMiB);
  in_another_thread([&] { release(data); });
  EXPECT_GE(big_blocks().mapped_bytes, before + 70 * kMiB);
  release_cached_memory();
  EXPECT_EQ(big_blocks().mapped_bytes, before);
}

TEST(Cache, DoesNotGrowWithTheVarietyOfSizes) {
  release_cached_memory();
  const std::size_t before = big_blocks().mapped_bytes;
  // Without a bound this would cache 32 classes, 48 GiB together.
  for (std::size_t bytes = 256 * kMiB; bytes < 4096 * kMiB;
       bytes += bytes / 16) {
    release(allocate_block(bytes));
  }
  EXPECT_LT(big_blocks().mapped_bytes, before + 7000 * kMiB);
  release_cached_memory();
}

// The address space that the process has, plus `more`.
rlim_t address_space_with(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return static_cast<rlim_t>(pages) * 4096 + more;
}

// A program's limit as in ulimit -v, put back at the end.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::size_t more) {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit now{.rlim_cur = address_space_with(more),
                     .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &now);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_ = {};
};

TEST(Cache, IsGivenBackWhenTheSystemHasNoMore) {
  release_cached_memory();
  release(allocate_block(200 * kMiB));
  const AddressSpaceLimit limit(100 * kMiB);
  void* const data = allocate_block(250 * kMiB);
  EXPECT_NE(data, nullptr);
  EXPECT_THROW(allocate_block(250 * kMiB), std::bad_alloc);
  release(data);
}

}  // namespace sluice::memory_blocks_test
