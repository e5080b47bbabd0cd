// Whatever traits, order, windows, buffers and costs: a schedule that is
// accepted doesn't wait for itself and keeps what its traits promise.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/lib/schedules/random_plans.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string fault = sluice::judge_plan({data, size}).fault;
  if (fault.empty()) return 0;
  std::fputs(fault.c_str(), stderr);
  std::abort();
}
