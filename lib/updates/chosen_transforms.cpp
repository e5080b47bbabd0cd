#include "lib/updates/chosen_transforms.h"

#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/added_rows.h"
#include "lib/base/plug_in.h"
#include "lib/updates/transform.h"

namespace sluice {

std::span<const ChosenTransformRow> chosen_transforms() {
  return with_added(std::span<const ChosenTransformRow>());
}

void describe_transforms(Fields& fields, OptimizerOptions& options) {
  const std::span<const ChosenTransformRow> rows = chosen_transforms();
  if (rows.empty()) return;
  fields.list("transform", "what plug-ins do to gradients before the optimizer",
              [&](Fields& own, std::int64_t index) {
                std::string name(rows.front().name);
                const ChosenTransformRow& row =
                    choose(own, "name", rows, name, "transform");
                OptimizerOptions unused = options;  // for the manual
                MakeCorrection make =
                    row.make.read(own, index < 0 ? unused : options);
                if (index >= 0) options.transforms.push_back(std::move(make));
              });
}

}  // namespace sluice
