#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice {

/// What a file says is a number: nlohmann's own get<T>() takes 4.5 as 4, −1 as
/// the largest of an unsigned type, and is undefined for 4.5e20.
/// Throws what get<T>() throws for another type, Json::type_error.
template <std::integral T, typename Json>
T whole_number(const Json& json) {
  using Unsigned = typename Json::number_unsigned_t;
  using Signed = typename Json::number_integer_t;
  const bool fits =
      json.is_number_unsigned()
          ? std::in_range<T>(json.template get_ref<const Unsigned&>())
          : json.is_number_integer() &&
                std::in_range<T>(json.template get_ref<const Signed&>());
  if (!fits) {
    constexpr int kWrongType = 302;
    throw Json::type_error::create(
        kWrongType,
        fmt::format("expected a whole number{} of at most {} bytes, found {}",
                    std::in_range<T>(-1) ? "" : " from 0", sizeof(T),
                    json.is_number() ? json.dump() : json.type_name()),
        nullptr);
  }
  return json.template get<T>();
}

template <std::integral T, typename Json>
std::vector<T> whole_numbers(const Json& array) {
  std::vector<T> numbers;
  for (const Json& json :
       array.template get_ref<const typename Json::array_t&>())
    numbers.push_back(whole_number<T>(json));
  return numbers;
}

}  // namespace sluice
