// Issue 18, item 4: bits flip in the checkpoints of a real run.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::damaged_checkpoint_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// Config whose checkpoints hold optimizers' states, a head, and batches in
/// flight.
constexpr const char* kConfig =
    "blocks = ['0', '1', '2-']\nengine = 'virtual'\ndrain = false\n"
    "model = {hidden = [16, 12], batch_norm = true}\n"
    "checkpoint = {every_turns = 5}\n"
    "boundary = {1 = {policy = 'local_loss', head = {name = 'predsim'}}, 2 = "
    "{policy = 'delayed_gradient'}}\n"
    "optimizer = {name = 'adam', lr = 0.01}\n";

unsigned flips() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are other threads
  const char* text = std::getenv("SLUICE_FLIPS");
  return text ? static_cast<unsigned>(std::stoul(text)) : 300;
}

struct Flip {
  std::string file;
  std::size_t byte = 0;
  int bit = 0;
};

class Damaged : public Program {
 protected:
  void SetUp() override {
    const std::string config = write("c.toml", config_with(kConfig));
    const Outcome run = sluice("run " + config + " --dir " + path("run"));
    ASSERT_EQ(run.status, 0) << run.text;
    checkpoint_ = checkpoint_folder(path("run/checkpoints"), 12);
    for (const auto& entry : fs::directory_iterator(checkpoint_))
      files_.push_back(entry.path().string());
    ASSERT_EQ(files_.size(), 6U);
    std::sort(files_.begin(), files_.end());
  }

  /// Half of them in headers.
  Flip draw(std::mt19937& random) const {
    Flip flip{.file = files_[random() % files_.size()]};
    const std::string all = slurp(flip.file);
    std::uint64_t header = 0;
    std::copy_n(all.data(), sizeof header, reinterpret_cast<char*>(&header));
    const bool in_header = random() % 2 == 0;
    flip.byte = random() % (in_header ? header + sizeof header : all.size());
    flip.bit = static_cast<int>(random() % 8);
    return flip;
  }
  static void apply(const Flip& flip) {
    std::fstream file(flip.file,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(flip.byte));
    const int before = file.get();
    file.seekp(static_cast<std::streamoff>(flip.byte));
    file.put(static_cast<char>(before ^ (1 << flip.bit)));
  }

  std::string checkpoint_;
  std::vector<std::string> files_;
};

TEST_F(Damaged, ByAnyFlippedBitIsRefusedOrReadAsItWas) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const NamedTensors weights = load_weights(checkpoint_);
  const NamedTensors state = load_state(checkpoint_);
  unsigned refused = 0;
  for (unsigned i = 0; i < flips(); ++i) {
    const Flip flip = draw(random);
    SCOPED_TRACE(fmt::format("seed {}, flip {}: {}, byte {}, bit {}", seed, i,
                             flip.file, flip.byte, flip.bit));
    apply(flip);
    try {
      EXPECT_EQ(difference(load_weights(checkpoint_), weights), "");
      EXPECT_EQ(difference(load_state(checkpoint_), state), "");
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(flip.file));
      ++refused;
    }
    apply(flip);
  }
  EXPECT_GT(refused, flips() * 9 / 10);
  EXPECT_EQ(difference(load_state(checkpoint_), state), "");
}

TEST_F(Damaged, IsNotTrainedOnAndTheOneBeforeItIs) {
  const std::string file = checkpoint_ + "/block-1.safetensors";
  apply({.file = file, .byte = fs::file_size(file) - 5, .bit = 3});
  const std::string resume = "run --resume " + path("run") + " turns=14";
  const Outcome refused = sluice(resume);
  EXPECT_EQ(refused.status, 2) << refused.text;
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr(file), HasSubstr("tensor '"),
                    HasSubstr("is damaged"), HasSubstr("older checkpoint")));
  EXPECT_TRUE(fs::exists(path("run/done")));
  const Outcome evaluated = sluice("eval " + checkpoint_);
  EXPECT_EQ(evaluated.status, 2) << evaluated.text;
  fs::remove_all(checkpoint_);
  const Outcome older = sluice(resume);
  EXPECT_EQ(older.status, 0) << older.text;
}

}  // namespace sluice::damaged_checkpoint_test
