// main() of tests/gpu on the simulated GPU.
#include <array>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/simcuda/simcuda.h"

namespace sluice::simcuda {
namespace {

/// Tests that can't run here: those whose full name contains `part`.
struct SkippedTest {
  std::string_view part;
  const char* reason;
};
constexpr std::array kSkipped = {
    SkippedTest{"GpuClock.", "time isn't simulated"},
    SkippedTest{"Staging.CopiesOverlap", "time isn't simulated"},
    SkippedTest{"Ipc.IsFasterThanStaging", "time isn't simulated"},
};

/// Skips what can't run, and fails a test of whose order something is reported.
class Watch final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const std::string name =
        std::string(test.test_suite_name()) + "." + test.name();
    for (const auto& [part, reason] : kSkipped)
      if (name.find(part) != std::string::npos)
        GTEST_SKIP() << "simulated GPU: " << reason;
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    for (const std::string& report : take_reports())
      ADD_FAILURE() << "simulated GPU: " << report;
  }
};

}  // namespace
}  // namespace sluice::simcuda

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // The tests' second processes need a simulated GPU too.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are other threads
  ::setenv("SLUICE_PROGRAM", SLUICE_SIM_PROGRAM, /*replace=*/1);
  sluice::simcuda::collect_reports();
  testing::UnitTest::GetInstance()->listeners().Append(
      new sluice::simcuda::Watch);
  return RUN_ALL_TESTS();
}
