#include "lib/workers/evaluations.h"

#include <utility>

namespace sluice {

void Evaluations::add(const Action& evaluate, const at::Tensor& outputs,
                      const at::Tensor& labels, SeatLog& log) {
  const std::int64_t validation = settings_.validation_batches;
  const std::int64_t training = settings_.training_batches;
  current_.add(settings_.loss, outputs, labels);
  const std::int64_t done = evaluate.batch + 1;
  if (done == validation)
    validation_ = std::exchange(current_, {});
  else if (done == validation + training)
    training_ = std::exchange(current_, {});
  if (done == settings_.evaluation_batches)
    log.evaluated(evaluate, current_, validation > 0 ? &validation_ : nullptr,
                  training > 0 ? &training_ : nullptr);
}

}  // namespace sluice
