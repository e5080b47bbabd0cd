#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/memory/account.h"
#include "lib/base/memory/blocks.h"

namespace sluice::memory_account_test {

void release(void* data) {
  EXPECT_TRUE(free_block(data));
}

void* allocate_for(const MemoryAccount& account, std::size_t bytes) {
  const MemoryScope scope(account);
  return allocate_block(bytes);
}

TEST(MemoryAccount, CountsWhatWasAskedForInItsScope) {
  const MemoryAccount account("block 1");
  void* const before = allocate_block(1000);
  void* const inside = allocate_for(account, 77);
  void* const after = allocate_block(1000);
  EXPECT_EQ(account.live_bytes(), 77u);
  for (void* const data : {before, inside, after}) release(data);
  EXPECT_EQ(account.live_bytes(), 0u);
  EXPECT_EQ(account.peak_bytes(), 77u);
}

TEST(MemoryAccount, TheInnermostScopeIsCharged) {
  const MemoryAccount outer("outer");
  const MemoryAccount inner("inner");
  std::vector<void*> blocks;
  {
    const MemoryScope outer_scope(outer);
    blocks.push_back(allocate_block(1));
    blocks.push_back(allocate_for(inner, 20));
    blocks.push_back(allocate_block(300));
  }
  EXPECT_EQ(outer.live_bytes(), 301u);
  EXPECT_EQ(inner.live_bytes(), 20u);
  for (void* const data : blocks) release(data);
}

TEST(MemoryAccount, IsCreditedWhereverABlockIsFreed) {
  const MemoryAccount mine("mine");
  const MemoryAccount other("other");
  void* const here = allocate_for(mine, 100);
  void* const there = allocate_for(mine, 200);
  {
    const MemoryScope scope(other);
    release(here);
  }
  EXPECT_EQ(mine.live_bytes(), 200u);
  std::thread([&] { release(there); }).join();
  EXPECT_EQ(mine.live_bytes(), 0u);
  EXPECT_EQ(other.peak_bytes(), 0u);
}

TEST(MemoryAccount, PeakIsTheMostAtOnce) {
  const MemoryAccount account("block 1");
  void* const first = allocate_for(account, 500);
  void* const second = allocate_for(account, 300);
  release(first);
  void* const third = allocate_for(account, 400);
  EXPECT_EQ(account.live_bytes(), 700u);
  EXPECT_EQ(account.peak_bytes(), 800u);
  release(second);
  release(third);
}

TEST(MemoryAccount, PeakStartsAnewFromWhatIsLive) {
  MemoryAccount account("block 1");
  void* const kept = allocate_for(account, 10);
  release(allocate_for(account, 1000));
  account.reset_peak();
  EXPECT_EQ(account.peak_bytes(), 10u);
  release(allocate_for(account, 5));
  EXPECT_EQ(account.peak_bytes(), 15u);
  release(kept);
}

TEST(MemoryAccount, MayEndBeforeItsMemory) {
  auto account = std::make_unique<MemoryAccount>("block 1");
  void* const data = allocate_for(*account, 100);
  account.reset();
  // The sanitizers see whether the balance is still there, and deleted.
  release(data);
}

TEST(MemoryAccount, ScopesOfOtherThreadsAreTheirOwn) {
  const MemoryAccount account("block 1");
  const MemoryScope scope(account);
  std::thread([] { release(allocate_block(10)); }).join();
  EXPECT_EQ(account.peak_bytes(), 0u);
}

TEST(MemoryAccount, CountsExactlyForSeveralThreads) {
  constexpr std::size_t kThreads = 4;
  const MemoryAccount account("block 1");
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      void* const kept = allocate_for(account, 1);
      for (int j = 0; j < 1000; ++j) release(allocate_for(account, 100));
      release(kept);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.live_bytes(), 0u);
  EXPECT_GE(account.peak_bytes(), 101u);
  EXPECT_LE(account.peak_bytes(), kThreads * 101);
}

}  // namespace sluice::memory_account_test
