// Random allocations of several threads, which free each other's blocks: no two
// blocks overlap, and every account ends at what it should.
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/memory/account.h"
#include "lib/base/memory/blocks.h"
#include "lib/base/random.h"

namespace sluice::memory_property_test {

constexpr int kThreads = 4;
constexpr int kSteps = 3000;
constexpr std::size_t kMostLive = 200;

struct Piece {
  unsigned char* data = nullptr;
  std::size_t bytes = 0;
  unsigned char pattern = 0;
};

// The first and last bytes tell; some in the middle too. All of a big block
// would take long.
template <class Visit>
void for_some_bytes(const Piece& piece, Visit visit) {
  const std::size_t step = piece.bytes < 4096 ? 1 : 509;
  for (std::size_t i = 0; i < piece.bytes; i += step) visit(piece.data[i]);
  visit(piece.data[piece.bytes - 1]);
}

void fill(const Piece& piece) {
  for_some_bytes(piece, [&](unsigned char& byte) { byte = piece.pattern; });
}

void expect_intact(const Piece& piece) {
  std::size_t wrong = 0;
  for_some_bytes(piece,
                 [&](unsigned char& byte) { wrong += byte != piece.pattern; });
  EXPECT_EQ(wrong, 0u) << "in a block of " << piece.bytes << " bytes";
}

// Where threads leave blocks for others to free.
class Exchange {
 public:
  // Leaves `piece` and takes another one at random.
  Piece swap(Piece piece, KeyedRandom& random) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(piece);
    std::swap(pieces_[random.below(pieces_.size())], pieces_.back());
    const Piece taken = pieces_.back();
    pieces_.pop_back();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

// Most are small, some are big, as in training.
std::size_t random_size(KeyedRandom& random) {
  const std::uint64_t most = std::uint64_t{1} << (4 + random.below(19));
  return 1 + random.below(most);
}

void release(const Piece& piece) {
  expect_intact(piece);
  EXPECT_TRUE(free_block(piece.data));
}

void work(std::uint64_t seed, const MemoryAccount& account,
          Exchange& exchange) {
  KeyedRandom random(seed);
  std::vector<Piece> live;
  for (int step = 0; step < kSteps; ++step) {
    if (live.size() < kMostLive && random.below(5) < 3) {
      const std::optional<MemoryScope> scope(std::in_place, account);
      Piece piece{.bytes = random_size(random),
                  .pattern = static_cast<unsigned char>(random.next())};
      piece.data = static_cast<unsigned char*>(allocate_block(piece.bytes));
      fill(piece);
      live.push_back(piece);
    } else if (!live.empty()) {
      std::swap(live[random.below(live.size())], live.back());
      const Piece piece = live.back();
      live.pop_back();
      release(random.below(2) == 0 ? piece : exchange.swap(piece, random));
    }
  }
  for (const Piece& piece : live) release(piece);
}

TEST(RandomBlocks, NeverOverlapAndAreAllCredited) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RecordProperty("seed", std::to_string(seed));
  Exchange exchange;
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  // Two rounds: the second one adopts the arenas of the first.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      accounts.push_back(std::make_unique<MemoryAccount>("thread"));
      threads.emplace_back(work, random_key({seed, accounts.size()}),
                           std::cref(*accounts.back()), std::ref(exchange));
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& account : accounts) {
    EXPECT_EQ(account->live_bytes(), 0u);
    EXPECT_GT(account->peak_bytes(), 0u);
  }
}

}  // namespace sluice::memory_property_test
