#include "lib/boundaries/policies/module_tensors.h"

#include <fmt/format.h>

namespace sluice {

ModuleTensors::ModuleTensors(torch::nn::Module& module, std::string_view kind,
                             std::int64_t layer) {
  const std::string prefix = fmt::format("{}.{}.", kind, layer);
  for (const auto& item : module.named_parameters())
    parameters.emplace_back(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers())
    buffers.emplace_back(prefix + item.key(), item.value());
}

}  // namespace sluice
