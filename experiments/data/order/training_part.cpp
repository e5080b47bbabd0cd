#include "experiments/data/order/training_part.h"

#include "experiments/data/samples/some_samples.h"
#include "lib/base/error.h"

namespace sluice {

void TrainingPart::describe(Fields& fields) {
  fields.key("evaluate_training", samples,
             {.text = "training samples on which the model is evaluated too, "
                      "with the labels that it trains on and without random "
                      "changes: training_loss and training_accuracy of an "
                      "evaluation; 0: none",
              .unit = "samples",
              .min = 0,
              .max = 1e9});
}

DataSet with_training_part(DataSet data, const TrainingPart& part) {
  if (part.samples == 0) return data;
  const std::int64_t size = data.train.size();
  if (part.samples > size)
    throw UserError(
        "data.evaluate_training = {}, but {} samples are trained on: give no "
        "more than these",
        part.samples, size);
  data.training_part = some_of(data.train, spread_over(size, part.samples));
  return data;
}

}  // namespace sluice
