#include "lib/base/config.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

template <class T>
constexpr std::string_view kTypeName = "string";
template <>
constexpr std::string_view kTypeName<bool> = "boolean";
template <>
constexpr std::string_view kTypeName<std::int64_t> = "integer";
template <>
constexpr std::string_view kTypeName<double> = "number";

template <class T>
constexpr std::string_view kExpected = "a string";
template <>
constexpr std::string_view kExpected<bool> = "true or false";
template <>
constexpr std::string_view kExpected<std::int64_t> = "an integer";
template <>
constexpr std::string_view kExpected<double> = "a number";

template <class T>
struct Element {
  using Type = void;
};
template <class T>
struct Element<std::vector<T>> {
  using Type = T;
};

/// "model.width" and where it was written: how every message begins.
struct Place {
  Origin origin;
  std::string path;
};

template <class... Args>
[[noreturn]] void fail(const Place& place, fmt::format_string<Args...> text,
                       Args&&... args) {
  throw UserError("{}: {}: {}", place.origin.text(), place.path,
                  fmt::format(text, std::forward<Args>(args)...));
}

std::string limits_text(const Doc& doc) {
  if (!doc.allowed.empty())
    return fmt::format("{}", fmt::join(doc.allowed, "|"));
  const bool has_min = std::isfinite(doc.min);
  const bool has_max = std::isfinite(doc.max);
  if (has_min && has_max) {
    return fmt::format("{} to {}", doc.min, doc.max);
  }
  if (has_min) return fmt::format("at least {}", doc.min);
  if (has_max) return fmt::format("at most {}", doc.max);
  return {};
}

template <class T>
void check_range(T value, const Doc& doc, const Place& place) {
  const auto number = static_cast<double>(value);
  if (number >= doc.min && number <= doc.max) return;
  fail(place, "{} is out of range; allowed: {}{}{}", value, limits_text(doc),
       doc.unit.empty() ? "" : " ", doc.unit);
}

void check(bool, const Doc&, const Place&) {}

void check(std::int64_t value, const Doc& doc, const Place& place) {
  check_range(value, doc, place);
}

void check(double value, const Doc& doc, const Place& place) {
  if (!std::isfinite(value)) {
    fail(place, "expected a finite number, found {}", value);
  }
  check_range(value, doc, place);
}

void check(const std::string& value, const Doc& doc, const Place& place) {
  const auto& allowed = doc.allowed;
  if (allowed.empty()) return;
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  fail(place, "unknown value '{}'{}; allowed: {}", value,
       perhaps(value, allowed), joined(allowed));
}

template <class T>
T scalar(const ConfigNode& node, const Doc& doc, const Place& place,
         std::string_view expected) {
  const T* value = std::get_if<T>(&node.value);
  T result = value == nullptr ? T{} : *value;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<std::int64_t>(&node.value)) {
      result = static_cast<double>(*integer);
      value = &result;
    }
  }
  if (value == nullptr) {
    fail(place, "expected {}, found {}", expected, node.describe());
  }
  check(result, doc, place);
  return result;
}

/// The value of `node` as a T, or the UserError that says why not.
template <class T>
T converted(const ConfigNode& node, const Doc& doc, const Place& place) {
  using E = typename Element<T>::Type;
  if constexpr (std::is_void_v<E>) {
    return scalar<T>(node, doc, place, kExpected<T>);
  } else {
    const auto* array = std::get_if<ConfigNode::Array>(&node.value);
    if (array == nullptr) {
      const std::string expected =
          fmt::format("{} or a list of {}s", kExpected<E>, kTypeName<E>);
      return {scalar<E>(node, doc, place, expected)};
    }
    T result;
    for (const ConfigNode& element : *array) {
      const Place at = {element.origin,
                        fmt::format("{}[{}]", place.path, result.size())};
      result.push_back(scalar<E>(element, doc, at, kExpected<E>));
    }
    return result;
  }
}

template <class T>
ConfigNode node_of(const T& value, const Origin& origin) {
  if constexpr (std::is_void_v<typename Element<T>::Type>) {
    return {value, origin};
  } else {
    ConfigNode::Array array;
    for (const auto& element : value) array.push_back({element, origin});
    return {std::move(array), origin};
  }
}

template <class T>
std::string type_name() {
  using E = typename Element<T>::Type;
  if constexpr (std::is_void_v<E>) {
    return std::string(kTypeName<T>);
  } else {
    return fmt::format("list of {}s", kTypeName<E>);
  }
}

KeyDoc key_doc(std::string path, std::string_view type,
               std::string default_value, const Doc& doc) {
  return {.path = std::move(path),
          .type = std::string(type),
          .default_value = std::move(default_value),
          .text = std::string(doc.text),
          .unit = std::string(doc.unit),
          .limits = limits_text(doc),
          .choices = doc.allowed.empty() ? doc.names : doc.allowed,
          .decides = doc.decides};
}

Origin origin_of(const ConfigNode* node) {
  return node == nullptr ? Origin{} : node->origin;
}

}  // namespace

Fields::Fields(const ConfigNode* table, std::string path)
    : table_(table), path_(std::move(path)) {
  resolved_ = {ConfigNode::Table{}, origin_of(table)};
  if (table == nullptr) return;
  if (std::holds_alternative<ConfigNode::Table>(table->value)) return;
  if (std::holds_alternative<std::monostate>(table->value)) return;
  const std::string name = path_.empty() ? "the config" : path_;
  fail({table->origin, name}, "expected a table, found {}", table->describe());
}

void Fields::key(std::string_view name, bool& value, Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::int64_t& value, Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::uint64_t& value, Doc doc) {
  auto integer = static_cast<std::int64_t>(value);
  read(name, integer, doc);
  value = static_cast<std::uint64_t>(integer);
}
void Fields::key(std::string_view name, double& value, Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::string& value, Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::vector<std::int64_t>& value,
                 Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::vector<double>& value, Doc doc) {
  read(name, value, doc);
}
void Fields::key(std::string_view name, std::vector<std::string>& value,
                 Doc doc) {
  read(name, value, doc);
}

void Fields::key(std::string_view name, ConfigNode& value,
                 std::string_view type, Doc doc) {
  const ConfigNode* node = take(name);
  manual_.push_back(key_doc(path_of(name), type, value.literal(), doc));
  if (node != nullptr) value = *node;
  if (!std::holds_alternative<std::monostate>(value.value)) {
    resolved_.set(name, value);
  }
}

void Fields::describe_absent(std::string_view name, const Doc& doc) {
  take(name);
  manual_.push_back(key_doc(path_of(name), type_name<std::string>(), "", doc));
}

void Fields::section(std::string_view name, std::string_view text,
                     const std::function<void(Fields&)>& describe) {
  const ConfigNode* node = take(name);
  manual_.push_back(key_doc(path_of(name), "table", "", {.text = text}));
  Fields below(node, path_of(name));
  describe(below);
  finish_below(below);
  add_manual(below, "", "");
  resolved_.set(name, below.resolved_);
}

void Fields::list(
    std::string_view name, std::string_view text,
    const std::function<void(Fields&, std::int64_t index)>& describe) {
  const ConfigNode::Array none;
  const ConfigNode* node = take(name);
  const std::string path = path_of(name);
  manual_.push_back(key_doc(path, "list of tables", "", {.text = text}));
  const ConfigNode::Array* elements = &none;
  if (node != nullptr) elements = std::get_if<ConfigNode::Array>(&node->value);
  if (elements == nullptr) {
    fail({node->origin, path}, "expected a list of tables ([[{}]]), found {}",
         path, node->describe());
  }
  ConfigNode::Array resolved;
  for (const ConfigNode& element : *elements) {
    const auto index = static_cast<std::int64_t>(resolved.size());
    Fields below(&element, fmt::format("{}[{}]", path, index));
    describe(below, index);
    finish_below(below);
    add_manual(below, below.path_, path + "[]");
    resolved.push_back(below.resolved_);
  }
  if (elements->empty()) {
    Fields below(nullptr, path + "[]");
    describe(below, -1);
    add_manual(below, "", "");
  }
  resolved_.set(name, {std::move(resolved), origin_of(node)});
}

bool Fields::has(std::string_view name) const {
  return table_ != nullptr && table_->find(name) != nullptr;
}

std::vector<std::string> Fields::written() const {
  std::vector<std::string> names;
  if (table_ == nullptr) return names;
  if (const auto* table = std::get_if<ConfigNode::Table>(&table_->value)) {
    for (const auto& [name, node] : *table) names.push_back(name);
  }
  return names;
}

void Fields::reject(std::string_view name, std::string_view text) const {
  const ConfigNode* node = has(name) ? table_->find(name) : table_;
  fail({origin_of(node), path_of(name)}, "{}", text);
}

void Fields::finish() {
  for (const std::string& name : written()) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    const ConfigNode& node = *table_->find(name);
    if (drops(name, node)) continue;
    throw UnknownKey(
        fmt::format("{}: unknown key '{}'", node.origin.text(), path_of(name)),
        perhaps(name, asked_),
        fmt::format("; this table has{}",
                    asked_.empty() ? " no keys" : ": " + joined(asked_)),
        path_of(name));
  }
}

void Fields::finish_below(Fields& below) {
  below.finish();
  dropped_.insert(dropped_.end(), below.dropped_.begin(), below.dropped_.end());
}

/// Whether an unknown key is older than the choice that doesn't have it.
bool Fields::drops(const std::string& name, const ConfigNode& node) {
  if (node.layer() >= decided_in_) return false;
  dropped_.push_back({path_of(name), node.origin.text(), decided_by_});
  return true;
}

void Fields::note_decision(std::string_view name, const ConfigNode& node) {
  if (node.origin.layer <= decided_in_) return;
  decided_in_ = node.origin.layer;
  decided_by_ = fmt::format("{} = {} ({})", path_of(name), node.literal(),
                            node.origin.text());
}

const ConfigNode* Fields::take(std::string_view name) {
  SLUICE_CHECK(std::find(asked_.begin(), asked_.end(), name) == asked_.end(),
               "key '{}' is described twice", path_of(name));
  asked_.emplace_back(name);
  return table_ == nullptr ? nullptr : table_->find(name);
}

template <class T>
void Fields::read(std::string_view name, T& value, const Doc& doc) {
  const ConfigNode* node = take(name);
  const std::string path = path_of(name);
  manual_.push_back(
      key_doc(path, type_name<T>(), node_of(value, Origin{}).literal(), doc));
  if (node != nullptr) {
    T read = converted<T>(*node, doc, {node->origin, path});
    if (doc.decides && (node->origin.replaces || read != value))
      note_decision(name, *node);
    value = std::move(read);
  }
  resolved_.set(name, node_of(value, origin_of(node)));
}

std::string Fields::path_of(std::string_view name) const {
  if (path_.empty()) return std::string(name);
  return fmt::format("{}.{}", path_, name);
}

/// Elements of a list may have different keys: each key is listed once.
void Fields::add_manual(const Fields& below, std::string_view path,
                        std::string_view shown_as) {
  for (KeyDoc line : below.manual_) {
    line.path = std::string(shown_as) + line.path.substr(path.size());
    const bool known =
        std::any_of(manual_.begin(), manual_.end(),
                    [&](const KeyDoc& old) { return old.path == line.path; });
    if (!known) manual_.push_back(std::move(line));
  }
}

}  // namespace sluice
