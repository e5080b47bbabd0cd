#pragma once

#include <cstddef>

namespace sluice {

/// The entry of number k, from 1, in a list that has one for each block (or
/// boundary) in their order. Throws std::out_of_range where there is none.
template <class List>
decltype(auto) by_block(List& list, int k) {
  return list.at(static_cast<std::size_t>(k) - 1);
}

/// Element of block k as by_block() gives it, or nullptr where there is none.
template <class List>
auto* find_by_block(List& list, int k) {
  const auto index = static_cast<std::size_t>(k) - 1;
  return index < list.size() ? &list[index] : nullptr;
}

}  // namespace sluice
