#include "lib/kernels/cuda_failure.h"

#include "lib/base/error.h"

namespace sluice {

void cuda_failure(const char* what, const char* why) {
  throw InternalError("{}: {}", what, why);
}

}  // namespace sluice
