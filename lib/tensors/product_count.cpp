#include "lib/tensors/product_count.h"

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace sluice {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

/// A product may be made of others, which are then no more work.
struct Count {
  double operations = 0;
  int depth = 0;
  double for_output = 0;  ///< of the product at hand, for each of its outputs
};
thread_local Count* counting = nullptr;

bool is_product(std::string_view name) {
  return name == "aten::mm" || name == "aten::bmm" || name == "aten::mv" ||
         name == "aten::addmm" || name == "aten::baddbmm" ||
         name == "aten::convolution" || name == "aten::convolution_backward";
}

/// [..., n, k] x [..., k, m]
double of_matrices(const at::Tensor& left, const at::Tensor& right) {
  return 2 * static_cast<double>(left.numel()) *
         static_cast<double>(right.dim() > 1 ? right.size(-1) : 1);
}

/// Operations for one output of a convolution: a product and a sum for each
/// weight of a filter.
double for_output_of(const at::Tensor& weights) {
  return 2 * static_cast<double>(weights.numel() / weights.size(0));
}

/// Gradients at the outputs, inputs, weights, ..., which of the gradients at
/// input, weights and bias are wanted.
double of_backward(const Values& inputs) {
  const auto wanted = inputs[10].toBoolList();
  const double products = (wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0);
  return products * static_cast<double>(inputs[0].toTensor().numel()) *
         for_output_of(inputs[2].toTensor());
}

void count(std::string_view name, const Values& inputs) {
  counting->for_output = 0;
  if (name == "aten::convolution") {
    counting->for_output = for_output_of(inputs[1].toTensor());
  } else if (name == "aten::convolution_backward") {
    counting->operations += of_backward(inputs);
  } else {
    const bool adds = name == "aten::addmm" || name == "aten::baddbmm";
    counting->operations += of_matrices(inputs[adds ? 1 : 0].toTensor(),
                                        inputs[adds ? 2 : 1].toTensor());
  }
}

/// Inputs are valid here, outputs at the end.
std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& call) {
  if (counting != nullptr && is_product(call.name()) && counting->depth++ == 0)
    count(call.name(), call.inputs());
  return nullptr;
}

void ends(const at::RecordFunction& call, at::ObserverContext*) {
  if (counting == nullptr || !is_product(call.name())) return;
  if (--counting->depth > 0 || counting->for_output == 0) return;
  counting->operations +=
      counting->for_output *
      static_cast<double>(call.outputs().at(0).toTensor().numel());
}

/// Counts this thread's products while it lives.
class ProductCountScope {
 public:
  explicit ProductCountScope(Count& count)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(begins, ends)
                .needsInputs(true)
                .needsOutputs(true)
                .scopes({at::RecordScope::FUNCTION}))) {
    counting = &count;
  }
  ~ProductCountScope() {
    counting = nullptr;
    at::removeCallback(handle_);
  }
  ProductCountScope(const ProductCountScope&) = delete;
  ProductCountScope& operator=(const ProductCountScope&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

double count_products(const std::function<void()>& work) {
  Count count;
  const ProductCountScope scope(count);
  work();
  return count.operations;
}

}  // namespace sluice
