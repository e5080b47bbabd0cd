#include "lib/replicas/centre/centre_rule.h"

#include "lib/base/error.h"

namespace sluice {

ServerAnswer CentreRule::serve(Push /*push*/) {
  throw InternalError("a centre that serves nobody by himself");
}

void CentreRule::merge(std::vector<Push> /*pushes*/) {
  throw InternalError("a centre that merges nothing");
}

void CentreRule::lose(int /*member*/) {}

ServerAnswer CentreRule::give(int /*member*/) {
  throw InternalError("a centre that merges nothing");
}

}  // namespace sluice
