#include "tests/lib/schedules/random_plans.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::random_plans_test {

/// SLUICE_PLANS: how many; SLUICE_SEED: of their choices.
std::uint32_t from_environment(const char* name, std::uint32_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise
                         : static_cast<std::uint32_t>(std::stoul(text));
}

TEST(RandomPlans, KeepWhatTheirTraitsPromise) {
  const std::uint32_t seed =
      from_environment("SLUICE_SEED", std::random_device{}());
  fmt::print("SLUICE_SEED={}\n", seed);
  std::mt19937 random(seed);
  const std::uint32_t wanted = from_environment("SLUICE_PLANS", 3000);
  std::uint32_t tried = 0;
  std::uint32_t plans = 0;
  std::uint32_t waiting = 0;
  for (; plans < wanted; ++tried) {
    ASSERT_LE(tried, 20 * (plans + 100)) << "hardly any traits go together";
    std::array<std::uint8_t, 160> bytes{};
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(random() >> 8U);
    const PlanVerdict verdict = judge_plan(bytes);
    ASSERT_EQ(verdict.fault, "") << "plan " << plans;
    plans += verdict.is_accepted && !verdict.waits_for_itself ? 1 : 0;
    waiting += verdict.waits_for_itself ? 1 : 0;
  }
  fmt::print("{} plans, and {} more that were refused with their cycle\n",
             plans, waiting);
  // Which is an answer in words, but no way to hide a broken schedule.
  EXPECT_LT(waiting, plans / 10 + 10);
}

}  // namespace sluice::random_plans_test
