#include "lib/replicas/outer_step.h"

#include <ATen/ATen.h>

namespace sluice {

void OuterStep::describe(Fields& fields) {
  fields.key("outer_lr", learning_rate,
             {.text = "rate of the outer optimizer, SGD, whose step the "
                      "movement of the replicas is; 1 without momentum: that "
                      "movement itself",
              .min = 0,
              .max = 1e6});
  fields.key("outer_momentum", momentum,
             {.text = "its momentum; of BMUF 1 - 1 / replicas.count",
              .min = 0,
              .max = 1});
}

void OuterStep::apply(const at::Tensor& weights, const at::Tensor& buffer,
                      const at::Tensor& gradient, double unit) const {
  buffer.mul_(momentum).add_(gradient);
  const at::Tensor along = nesterov ? gradient + momentum * buffer : buffer;
  weights.sub_(along * (learning_rate * unit));
}

}  // namespace sluice
