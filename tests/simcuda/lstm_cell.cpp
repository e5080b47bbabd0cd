// The cell of an LSTM, which CUDA does in one launch, and LibTorch's CPU build
// has no kernel for. Run by the fallback, on the CPU.
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace sluice::simcuda {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool has(const OptionalTensor& tensor) {
  return tensor && tensor->defined();
}

/// Gates are [N, 4 H]: input, forget, cell, output; states [N, H]. Returns the
/// next states and the activated gates.
ThreeTensors lstm_cell(const at::Tensor& of_input, const at::Tensor& of_hidden,
                       const at::Tensor& cell, const OptionalTensor& input_bias,
                       const OptionalTensor& hidden_bias) {
  at::Tensor sums = of_input + of_hidden;
  if (has(input_bias)) sums = sums + *input_bias + *hidden_bias;
  const std::vector<at::Tensor> gates = sums.chunk(4, 1);
  const at::Tensor in = at::sigmoid(gates[0]);
  const at::Tensor forget = at::sigmoid(gates[1]);
  const at::Tensor content = at::tanh(gates[2]);
  const at::Tensor out = at::sigmoid(gates[3]);
  const at::Tensor next = forget * cell + in * content;
  return {out * at::tanh(next), next, at::cat({in, forget, content, out}, 1)};
}

/// Gradients of the gates, the cell's state and the biases.
ThreeTensors lstm_cell_backward(const OptionalTensor& of_hidden,
                                const OptionalTensor& of_next,
                                const at::Tensor& cell, const at::Tensor& next,
                                const at::Tensor& workspace, bool has_bias) {
  if (!has(of_hidden) && !has(of_next)) return {};
  const at::Tensor hidden = has(of_hidden) ? *of_hidden : at::zeros_like(cell);
  const std::vector<at::Tensor> gates = workspace.chunk(4, 1);
  const at::Tensor& in = gates[0];
  const at::Tensor& forget = gates[1];
  const at::Tensor& content = gates[2];
  const at::Tensor& out = gates[3];
  const at::Tensor shown = at::tanh(next);
  at::Tensor state = hidden * out * (1 - shown * shown);
  if (has(of_next)) state = state + *of_next;
  const at::Tensor of_gates = at::cat(
      {state * content * in * (1 - in), state * cell * forget * (1 - forget),
       state * in * (1 - content * content), hidden * shown * out * (1 - out)},
      1);
  return {of_gates, state * forget,
          has_bias ? at::sum(of_gates, {0}) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
}

}  // namespace
}  // namespace sluice::simcuda
