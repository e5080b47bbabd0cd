#include "tests/oracles/plain_lstm.h"

#include <ATen/ATen.h>

namespace sluice {

PlainLstm::PlainLstm(std::int64_t layers, std::int64_t width,
                     std::int64_t vocabulary) {
  token_ = add(0, "token", torch::nn::Embedding(vocabulary, width));
  for (std::int64_t i = 1; i <= layers; ++i)
    lstms_.push_back(add(i, "lstm", torch::nn::LSTM(width, width)));
  vocabulary_ =
      add(layers + 1, "vocabulary", torch::nn::Linear(width, vocabulary));
}

at::Tensor PlainLstm::forward(const at::Tensor& tokens) {
  at::Tensor x = token_(tokens);  // [N, T, C]
  for (torch::nn::LSTM& lstm : lstms_) {
    const auto weights = lstm->named_parameters();
    at::Tensor h = at::zeros({x.size(0), x.size(2)});
    at::Tensor c = at::zeros_like(h);
    std::vector<at::Tensor> places;
    for (std::int64_t t = 0; t < x.size(1); ++t) {
      const std::vector<at::Tensor> gates =
          (at::matmul(x.select(1, t), weights["weight_ih_l0"].t()) +
           weights["bias_ih_l0"] + at::matmul(h, weights["weight_hh_l0"].t()) +
           weights["bias_hh_l0"])
              .chunk(4, 1);  // input, forget, cell, output
      c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
      places.push_back(h);
    }
    x = at::stack(places, 1);
  }
  return linear(vocabulary_, x);
}

}  // namespace sluice
