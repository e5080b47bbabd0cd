#include "experiments/policy_draws.h"

#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice {
namespace {

void set_generator(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

}  // namespace

at::Tensor generator_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

void save_draws(const PolicyDraws& draws, const std::string& path) {
  NamedTensors states = {{"config", draws.at_config}};
  for (std::size_t i = 0; i < draws.blocks.size(); ++i)
    states.emplace_back(fmt::format("block.{}", i + 1), draws.blocks[i]);
  write_safetensors(path, states);
}

PolicyDraws load_draws(const std::string& path) {
  PolicyDraws draws{.turn = std::make_shared<std::recursive_mutex>()};
  for (auto& [name, state] : read_safetensors(path))
    if (name == "config")
      draws.at_config = std::move(state);
    else
      draws.blocks.push_back(std::move(state));
  SLUICE_CHECK(draws.at_config.defined(), "{}: has no 'config'", path);
  return draws;
}

DrawsFrom::DrawsFrom(const at::Tensor& state,
                     const std::shared_ptr<std::recursive_mutex>& turn)
    : lock_(*turn), before_(generator_state()) {
  set_generator(state);
}

DrawsFrom::~DrawsFrom() {
  set_generator(before_);
}

}  // namespace sluice
