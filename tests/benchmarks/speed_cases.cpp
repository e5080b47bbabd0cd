#include "tests/benchmarks/speed_cases.h"

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr SpeedCase kCases[] = {
    {"conv", 64, 3,
     "data = {name = 'cifar10', root = 'ROOT'}\n"
     "model = {name = 'conv3'}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n"},
    {"mlp", 128, 20,
     "data = {name = 'mnist', root = 'ROOT'}\n"
     "model = {name = 'mlp', hidden = [1024, 1024, 1024]}\n"
     "optimizer = {name = 'adam', lr = 1e-4}\n"},
    {"gpt", 16, 4,
     "data = {name = 'text', file = 'ROOT/text', context = 128}\n"
     "model = {name = 'gpt', layers = 4, width = 128, heads = 4}\n"
     "optimizer = {name = 'adamw', lr = 1e-4, weight_decay = 0.01}\n"},
};

}  // namespace

std::span<const SpeedCase> speed_cases() {
  return kCases;
}

const SpeedCase& speed_case(std::string_view name) {
  for (const SpeedCase& each : kCases)
    if (each.name == name) return each;
  throw UserError("no case '{}'; there are: conv, mlp, gpt", name);
}

}  // namespace sluice
