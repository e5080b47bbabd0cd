// Every head in every precision: it trains two turns, or is refused in words.
#include <string_view>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/tensors/precision.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::head_precision_test {

constexpr Precision kPrecisions[] = {Precision::fp32, Precision::bf16};

void train(Head& head, const SampleShape& shape, Precision precision) {
  for (int turn = 0; turn < 2; ++turn) {
    const at::Tensor features = features_of(shape);
    at::Tensor loss;
    {
      const PrecisionScope scope(precision);
      loss = head.forward({features}, {.labels = labels_for(features)}).loss;
    }
    loss.backward();
    EXPECT_TRUE(at::isfinite(features.grad()).all().item<bool>());
  }
}

TEST(HeadPrecision, EveryHeadTrainsOrIsRefusedOnEveryShape) {
  for (const HeadRow& row : heads())
    for (const SampleShape& shape :
         {SampleShape{12}, SampleShape{8, 6, 6}, SampleShape{5, 12}})
      for (const Precision precision : kPrecisions) {
        // These want the input, the model or pairs of samples too.
        if (row.name == "infopro" || row.name == "aug_local" ||
            row.name == "man" || row.name == "forward_forward")
          continue;
        try {
          train(*make_head(row.name, site_of(shape)), shape, precision);
        } catch (const UserError& error) {
          EXPECT_GT(std::string_view(error.what()).size(), 10U) << row.name;
        }
      }
}

}  // namespace sluice::head_precision_test
