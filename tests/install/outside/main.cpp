#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/boundaries/boundary.h"

int main() {
  fmt::print("random {:.3f}\n", sluice::KeyedRandom(7).uniform());
  for (const auto& row : sluice::policies()) fmt::print("{}\n", row.name);
}
