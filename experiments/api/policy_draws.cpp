#include "experiments/api/policy_draws.h"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

constexpr const char* kAtConfig = "config";
constexpr const char* kUpper = ".upper";

std::string name_of(std::size_t boundary, std::size_t phase) {
  return fmt::format("boundary.{}.phase.{}", boundary + 1, phase);
}

/// Whether the phase goes on with the policy of the one before, which is then
/// not made again.
bool goes_on(const Experiment& experiment, std::size_t boundary,
             std::size_t phase) {
  return phase > 0 && experiment.phases[phase][boundary].config ==
                          experiment.phases[phase - 1][boundary].config;
}

/// Makes an end while the generator is in the recorded state.
template <class Make>
Make drawing_from(const at::Tensor& state,
                  const std::shared_ptr<std::recursive_mutex>& turn,
                  const Make& make) {
  return [=](const BoundarySite& site) {
    const std::lock_guard lock(*turn);
    const GeneratorGuard kept;
    set_generator_state(state);
    return make(site);
  };
}

}  // namespace

NamedTensors noted_draws(const Experiment& experiment) {
  const GeneratorGuard kept;
  NamedTensors states = {{kAtConfig, generator_state()}};
  for (int block = 1; block < experiment.blocks(); ++block)
    for (std::size_t phase = 0; phase < experiment.phases.size(); ++phase) {
      const auto boundary = static_cast<std::size_t>(block) - 1;
      if (goes_on(experiment, boundary, phase)) continue;
      states.emplace_back(name_of(boundary, phase), generator_state());
      const MakeBoundary& make = experiment.phases[phase][boundary].make;
      make.lower(site_of(experiment, block));
      states.emplace_back(name_of(boundary, phase) + kUpper, generator_state());
      make.upper(site_of(experiment, block));
    }
  return states;
}

void draw_from(const NamedTensors& states,
               const std::shared_ptr<std::recursive_mutex>& turn,
               Experiment& experiment) {
  const std::map<std::string, at::Tensor> by_name(states.begin(), states.end());
  for (std::size_t phase = 0; phase < experiment.phases.size(); ++phase)
    for (std::size_t i = 0; i < experiment.phases[phase].size(); ++i) {
      if (goes_on(experiment, i, phase)) continue;
      MakeBoundary& make = experiment.phases[phase][i].make;
      make.lower =
          drawing_from(by_name.at(name_of(i, phase)), turn, make.lower);
      make.upper = drawing_from(by_name.at(name_of(i, phase) + kUpper), turn,
                                make.upper);
    }
}

std::string draws_of_network(const std::string& folder) {
  return folder + "/draws.safetensors";
}

const at::Tensor& state_at_config(const NamedTensors& states) {
  for (const auto& [name, state] : states)
    if (name == kAtConfig) return state;
  throw InternalError("no state of the generator is called '{}'", kAtConfig);
}

}  // namespace sluice
