#include "lib/updates/corrections.h"

#include <string>
#include <vector>

#include "lib/base/added_rows.h"
#include "lib/updates/transform.h"

namespace sluice {

MakeCorrection read_implicit_momentum(Fields& fields,
                                      OptimizerOptions& options);
MakeCorrection read_delay_compensation(Fields& fields,
                                       OptimizerOptions& options);
MakeCorrection read_dynsgd(Fields& fields, OptimizerOptions& options);
MakeCorrection read_pipemare(Fields& fields, OptimizerOptions& options);
MakeCorrection read_spike_compensation(Fields& fields,
                                       OptimizerOptions& options);
MakeCorrection read_staleness_aware(Fields& fields, OptimizerOptions& options);

std::span<const CorrectionRow> corrections() {
  static constexpr CorrectionRow kRows[] = {
      {"implicit_momentum",
       "momentum of sgd less the one that asynchrony brings",
       read_implicit_momentum},
      {"delay_compensation", "the gradient's change since, from its square",
       read_delay_compensation},
      {"dynsgd", "the rate divided by 1 + staleness", read_dynsgd},
      {"pipemare", "the rate divided by a power of staleness, fading",
       read_pipemare},
      {"spike_compensation", "steps of sgd as if gradients came in time",
       read_spike_compensation},
      {"staleness_aware", "the rate divided by staleness, if above 1",
       read_staleness_aware},
  };
  return with_added<ReadCorrection>(kRows);
}

void describe_correction(Fields& fields, OptimizerOptions& options) {
  fields.section(
      "correction", "of gradients that are stale by the time they are applied",
      [&](Fields& own) {
        const CorrectionRow* row = nullptr;
        Names<const CorrectionRow*> rows = {{"none", nullptr}};
        for (const CorrectionRow& each : corrections())
          rows.push_back({std::string(each.name), &each});
        own.key(
            "name", row, rows,
            {.text = "name of the correction: see `sluice list corrections`",
             .decides = true});
        if (row == nullptr) return;
        options.correction = row->name;
        options.correct = row->make(own, options);
      });
}

std::unique_ptr<Transform> make_correction(const UpdateOptions& options,
                                           const NamedTensors& parameters) {
  if (!options.optimizer.correct) return nullptr;
  return options.optimizer.correct(parameters);
}

}  // namespace sluice
