#pragma once

#include <utility>

#include "lib/base/error.h"

namespace sluice {

/// Calls `use` with what `find` finds. Where that fails, and `find` finds
/// another by then, as when checkpoint.keep has removed a checkpoint while it
/// was read, it is called again with that one. `place` tells them apart.
template <class Find, class Place, class Use>
auto use_newest(const Find& find, const Place& place, const Use& use) {
  auto found = find();
  while (true) {
    try {
      return use(found);
    } catch (const UserError&) {
      auto newer = find();
      if (place(newer) == place(found)) throw;
      found = std::move(newer);
    }
  }
}

}  // namespace sluice
