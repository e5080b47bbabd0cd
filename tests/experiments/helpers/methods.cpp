#include "tests/experiments/helpers/methods.h"

#include <fmt/format.h>

namespace sluice {

void PrintTo(const MethodUnderTest& method, std::ostream* out) {
  *out << method.name;
}

std::vector<MethodUnderTest> methods() {
  std::vector<MethodUnderTest> all = {
      {"Backprop", "{policy = 'backprop'}", true},
      {"FeaturesReplay", "{policy = 'features_replay', statistics = 'forward'}",
       true},
      {"LocalLoss", "{policy = 'local_loss'}"},
      {"Overlapping", "{policy = 'local_loss', reach = 1}"},
      {"Interlocking", "{policy = 'local_loss', reach = 1, rule = 'furthest'}"},
      {"TargetProjection", "{policy = 'target_projection'}"},
      {"Dni", "{policy = 'synthetic_gradient'}"},
      {"Cdni",
       "{policy = 'synthetic_gradient', target_delay = 1, synthesizer = {label "
       "= true}}"},
      {"Unlocked",
       "{policy = 'synthetic_gradient', unlock = {hidden = 1, width = 16, "
       "optimizer = {name = 'sgd', lr = 0.001}}}"},
      {"LamTarget",
       "{policy = 'blend', sources = [{policy = 'backprop', weight = 0.5}, "
       "{policy = 'synthetic_gradient', weight = 0.5, lam_target = 0.9}]}"},
      {"Penalty", "{policy = 'penalty', beta = 2, step_size = 0.25}"},
      {"AugmentedLagrangian",
       "{policy = 'augmented_lagrangian', order = 'weights_first', memory = "
       "'sample', step_size = 0.5}"},
      {"BlockAdmm", "{policy = 'block_admm', memory = 'sample'}"},
      {"BlockAdmmFromTheTop",
       "{policy = 'block_admm', order = 'top_down', steps = 2}"},
      {"Nmf", "{policy = 'nmf', rank = 6}"},
      {"NmfOfSamples",
       "{policy = 'nmf', rank = 6, memory = 'sample', dual = true}"},
      {"BackpropAndLocalLoss",
       "{policy = 'blend', sources = [{policy = 'backprop', weight = 0.5}, "
       "{policy = 'local_loss', weight = 0.5}]}"},
      {"DelayedBlend",
       "{policy = 'blend', sources = [{policy = 'delayed_gradient', weight = "
       "0.5}, {policy = 'local_loss', weight = 0.5}]}"}};
  for (const char* weights :
       {"stash", "recompute", "mixed", "vertical_sync", "extrapolate"})
    all.push_back({std::string("DelayedGradient_") + weights,
                   std::string("{policy = 'delayed_gradient', weights = '") +
                       weights + "'}",
                   true});
  for (const char* order : {"A", "B"})
    for (const std::string weights : {"stash", "mixed", "current", "rebuilt"})
      all.push_back(
          {fmt::format("FullyDecoupled_{}_{}", order, weights),
           fmt::format("{{policy = 'fully_decoupled', order = '{}', weights = "
                       "'{}'{}}}",
                       order, weights,
                       weights == "current" || weights == "rebuilt"
                           ? ", statistics = 'forward'"
                           : ""),
           true});
  return all;
}

}  // namespace sluice
