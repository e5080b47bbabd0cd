#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/modules/rnn.h>

#include "tests/oracles/plain_models.h"

namespace sluice {

/// A recurrent language model without dropout, whose steps are written out, one
/// place of the text after another.
class PlainLstm final : public PlainModel {
 public:
  PlainLstm(std::int64_t layers, std::int64_t width, std::int64_t vocabulary);
  at::Tensor forward(const at::Tensor& tokens) override;

 private:
  torch::nn::Embedding token_ = nullptr;
  std::vector<torch::nn::LSTM> lstms_;  // for their parameters alone
  torch::nn::Linear vocabulary_ = nullptr;
};

}  // namespace sluice
