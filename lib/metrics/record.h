#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// Within a struct: its fields, which are written in this order and read by
/// these names. An optional one that is empty is left out; a struct among them
/// stands for its own fields; NamedValues come last: their names are data.
#define SLUICE_FIELDS(...)                                  \
  static constexpr std::string_view kFields = #__VA_ARGS__; \
  auto fields() {                                           \
    return std::tie(__VA_ARGS__);                           \
  }                                                         \
  auto fields() const {                                     \
    return std::tie(__VA_ARGS__);                           \
  }

/// Fields of a record kind, with its name.
#define SLUICE_RECORD(kind, ...)                  \
  static constexpr std::string_view kKind = kind; \
  SLUICE_FIELDS(__VA_ARGS__)

/// Values whose names are data, such as those of tensors.
template <class T>
using NamedValues = std::vector<std::pair<std::string, T>>;

template <class T>
concept RecordKind = requires {
  T::kKind;
  T::kFields;
};

/// One line of metrics: named values, in the order in which they were set.
struct Record {
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  NamedValues<Value> values = {};

  Record() = default;
  /// The record of a struct: its kind and its fields.
  template <RecordKind T>
  Record(const T& said) {  // NOLINT(google-explicit-constructor)
    set("kind", std::string(T::kKind));
    put("", said);
  }

  template <class T>
  bool is() const {
    return is_of(T::kKind);
  }
  /// The record as a struct T; nothing when it is of another kind.
  template <RecordKind T>
  std::optional<T> as() const {
    return is<T>() ? std::optional(read<T>()) : std::nullopt;
  }
  /// The record as a struct T, whatever its kind. A field that the record
  /// lacks, or has with another type, keeps its default.
  template <class T>
  T read() const;

  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;
  /// The value as a number; `otherwise` when it is absent or no number.
  double number(std::string_view name, double otherwise) const;
  /// The value as a whole number, truncated; `otherwise` as above.
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  /// The value as a text; empty when it is absent or no text.
  std::string text(std::string_view name) const;

 private:
  bool is_of(std::string_view kind) const;
  template <class T>
  void put(std::string_view name, const T& value);
};

/// Conversion to a line of JSON, without the line break, and back. NaN and
/// infinities are written as the strings "nan", "inf", "-inf".
std::string to_json(const Record& record);
Record record_from_json(std::string_view line);

namespace fields {

/// Takes the first name off a list of them.
std::string_view next_name(std::string_view& names);
bool is_listed(std::string_view name, std::string_view names);

template <class T, class Visit>
void visit_each(T& said, Visit&& visit) {
  std::string_view names = T::kFields;
  std::apply([&](auto&... field) { (visit(next_name(names), field), ...); },
             said.fields());
}

// Whether the value is of that type; a number of either kind is one of both.
bool read(const Record::Value& value, double& to);
bool read(const Record::Value& value, std::int64_t& to);
bool read(const Record::Value& value, int& to);
bool read(const Record::Value& value, std::string& to);
template <class T>
bool read(const Record::Value& value, std::optional<T>& to) {
  if (T known = {}; read(value, known)) to = std::move(known);
  return to.has_value();
}

/// Reads all that `known` doesn't name.
template <class T>
void read_rest(const Record& record, std::string_view known,
               NamedValues<T>& to) {
  for (const auto& [name, value] : record.values)
    if (T found = {};
        name != "kind" && !is_listed(name, known) && read(value, found))
      to.emplace_back(name, std::move(found));
}

}  // namespace fields

template <class T>
void Record::put(std::string_view name, const T& value) {
  if constexpr (requires { T::kFields; })
    fields::visit_each(value, [&](std::string_view its, const auto& field) {
      put(its, field);
    });
  else if constexpr (requires { value.has_value(); })
    value ? put(name, *value) : void();
  else if constexpr (requires { value.front().first; })
    for (const auto& [its, each] : value) put(its, each);
  else if constexpr (std::integral<T>)
    set(name, std::int64_t{value});
  else
    set(name, value);
}

template <class T>
T Record::read() const {
  T said;
  fields::visit_each(said, [&]<class F>(std::string_view name, F& field) {
    if constexpr (requires { F::kFields; })
      field = read<F>();
    else if constexpr (requires { field.front().first; })
      fields::read_rest(*this, T::kFields, field);
    else if (const Value* value = find(name))
      fields::read(*value, field);
  });
  return said;
}

}  // namespace sluice
