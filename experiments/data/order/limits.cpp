#include "experiments/data/order/limits.h"

#include <utility>

#include "experiments/data/samples/some_samples.h"

namespace sluice {
namespace {

Split limited(const Split& split, std::int64_t most) {
  if (most == 0 || split.size() <= most) return split;
  return some_of(split, spread_over(split.size(), most));
}

}  // namespace

void DataLimits::describe(Fields& fields) {
  fields.key("train", train,
             {.text = "samples that are trained on at most, one drawn from "
                      "each of as many equal ranges of the split: an epoch "
                      "is then as short; 0: all",
              .unit = "samples",
              .min = 0,
              .max = 1e12});
  fields.key("evaluation", evaluation,
             {.text = "samples of each split that an evaluation sees at "
                      "most, drawn likewise; 0: all",
              .unit = "samples",
              .min = 0,
              .max = 1e12});
}

DataSet with_limits(DataSet data, const DataLimits& limits) {
  data.train = limited(data.train, limits.train);
  for (Split* split : {&data.test, &data.validation, &data.training_part})
    *split = limited(*split, limits.evaluation);
  return data;
}

}  // namespace sluice
