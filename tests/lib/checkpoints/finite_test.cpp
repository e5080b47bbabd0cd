// NaN and infinities in tensors and in files of checkpoints.
#include "lib/checkpoints/finite.h"

#include <filesystem>
#include <limits>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/set_aside.h"

namespace sluice::finite_test {

namespace fs = std::filesystem;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Ones with that value at the end.
at::Tensor ending_with(double value, at::ScalarType type,
                       std::int64_t size = 9001) {
  at::Tensor tensor = at::ones({size}, type);
  tensor[size - 1] = value;
  return tensor;
}

TEST(Finite, OneNanOrInfinityOfAnyTypeIsFound) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double value : {kNan, kInfinity, -kInfinity})
      EXPECT_FALSE(is_finite(ending_with(value, type))) << type << value;
    EXPECT_TRUE(is_finite(ending_with(-60000, type))) << type;
  }
}

TEST(Finite, IntegersAndEmptyTensorsAreFinite) {
  EXPECT_TRUE(is_finite(at::full({3}, -1, at::kLong)));
  EXPECT_TRUE(is_finite(at::empty({0})));
}

TEST(Finite, StridedTensorsAreRead) {
  at::Tensor all = at::ones({4, 4});
  all[1][2] = kNan;
  EXPECT_FALSE(is_finite(all.t()));
  EXPECT_TRUE(is_finite(all.select(1, 1)));
}

TEST(Finite, MaskOfAnAttentionPassesAndOtherInfinitiesDont) {
  const at::Tensor mask = at::full({5, 5}, -kInfinity).triu(1);
  EXPECT_TRUE(is_finite(mask));
  at::Tensor both = mask.clone();
  both[4][0] = kInfinity;
  EXPECT_FALSE(is_finite(both));
  at::Tensor weight = mask.clone();
  weight[4][0] = 0.1;
  EXPECT_FALSE(is_finite(weight));
  at::Tensor nan = mask.clone();
  nan[0][1] = kNan;
  EXPECT_FALSE(is_finite(nan));
  EXPECT_FALSE(is_finite(mask[0])) << "a bias of zeros and infinities";
}

class Folder : public testing::Test {
 protected:
  void save(std::int64_t turn, double weight, double state = 1) const {
    save_block(path_, turn, {1}, {{"a", at::ones({2})}}, {});
    save_block(path_, turn, {2}, {{"b", at::full({2}, weight)}},
               {{"b.momentum", at::full({2}, state)}});
    finish_checkpoint(path_, turn);
  }
  std::string folder(std::int64_t turn) const {
    return checkpoint_folder(path_, turn);
  }

  const TemporaryFolder scratch_;
  const std::string path_ = scratch_.path() + "/checkpoints";
};

TEST_F(Folder, FilesNoteTheTensorsThatArentFinite) {
  save(1, 0.5);
  EXPECT_EQ(noted_not_finite(folder(1)), "");
  save(2, kNan);
  EXPECT_EQ(noted_not_finite(folder(2)), "tensor 'b' of block-2.safetensors");
  save(3, 0.5, kInfinity);
  EXPECT_EQ(noted_not_finite(folder(3)),
            "tensor 'b.momentum' of block-2.state.safetensors");
}

TEST_F(Folder, PartsOfReplicasCount) {
  save_block(path_, 1, {1}, {{"a", at::ones({1})}}, {});
  save_block(path_, 1, {1, 2}, {{"a", at::full({1}, kNan)}}, {});
  finish_checkpoint(path_, 1);
  EXPECT_EQ(noted_not_finite(folder(1)),
            "tensor 'a' of replica-2/block-1.safetensors");
}

TEST_F(Folder, ValuesTellOfFilesWithoutNotes) {
  save(1, 0.5);
  EXPECT_EQ(find_not_finite(folder(1)), "");
  save(2, kInfinity);
  EXPECT_EQ(find_not_finite(folder(2)), "tensor 'b' of block-2.safetensors");
  EXPECT_EQ(find_not_finite(folder(2) + "/block-2.safetensors"),
            "tensor 'b' of block-2.safetensors");
}

TEST_F(Folder, NoteDoesntChangeWhatIsRead) {
  save(1, kNan);
  const NamedTensors weights = load_weights(folder(1));
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_TRUE(at::isnan(weights[1].second).all().item<bool>());
}

TEST_F(Folder, CheckpointThatIsSetAsideIsNoneAndTheNewestStays) {
  save(1, 0.5);
  save(2, kNan);
  save(3, kNan);
  EXPECT_FALSE(find_set_aside(path_));
  set_aside(folder(2));
  const std::string aside = set_aside(folder(3));
  EXPECT_TRUE(is_set_aside(aside));
  EXPECT_EQ(find_checkpoints(path_).size(), 1U);
  ASSERT_TRUE(find_set_aside(path_));
  EXPECT_EQ(find_set_aside(path_)->turn, 3);
  EXPECT_EQ(find_set_aside(path_)->folder, aside);
  EXPECT_FALSE(fs::exists(folder(2) + ".not-finite"));
}

}  // namespace sluice::finite_test
