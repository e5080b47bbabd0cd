#include "lib/replicas/compressor.h"

#include "lib/base/error.h"

namespace sluice {

void GradientExchange::finish_first(Group& group) {
  throw InternalError("replica {}: an exchange in one round has no second",
                      group.member());
}

void GradientExchange::start_second(Group& group) {
  finish_first(group);
}

}  // namespace sluice
