#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace sluice {

/// A method in lockstep, for tests of what holds for all of them.
struct MethodUnderTest {
  std::string name;
  std::string boundary;  ///< as TOML, for all boundaries
  /// Whether its gradients are the true ones when nothing learns.
  bool is_true_without_learning = false;
};

void PrintTo(const MethodUnderTest& method, std::ostream* out);

/// Each method, in each of its variants.
std::vector<MethodUnderTest> methods();

}  // namespace sluice
