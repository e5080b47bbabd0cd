#include "experiments/data/files/tokenizer_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// The fields of a message of Protocol Buffers, one after the other.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& source)
      : rest_(bytes), source_(source) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = take_number();
    if (tag > std::numeric_limits<std::uint32_t>::max()) fail("a tag");
    field_ = tag >> 3;
    number_ = 0;
    bytes_ = {};
    is_bytes_ = false;
    switch (tag & 7) {
      case 0:
        number_ = take_number();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes_ = take(take_number());
        is_bytes_ = true;
        break;
      case 5:
        take(4);
        break;
      default:
        fail("a type of field");
    }
    if (field_ == 0) fail("a field");
    return true;
  }

  std::uint64_t field() const { return field_; }
  bool is_bytes() const { return is_bytes_; }
  std::string_view bytes() const { return bytes_; }
  std::uint64_t number() const { return number_; }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw UserError(
        "{}: is no tokenizer of sentencepiece, or a damaged one: {} is none of "
        "its format",
        source_, what);
  }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail("the length of a field");
    const std::string_view taken =
        rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t take_number() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      number |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return number;
    }
    fail("a number");
  }

  std::string_view rest_;
  const std::string& source_;
  std::uint64_t field_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
  bool is_bytes_ = false;
};

/// A double array whose results are offsets into texts, each of which ends with
/// a zero.
class RuleArray {
 public:
  /// `units`: 32 bits each, little-endian.
  RuleArray(std::string_view units, std::size_t texts)
      : units_(units.size() / sizeof(std::uint32_t)),
        leaves_(units_.size(), 0),
        states_(units_.size(), State::unseen),
        texts_(texts) {
    if (!units_.empty())
      std::memcpy(units_.data(), units.data(),
                  units_.size() * sizeof(std::uint32_t));
  }

  /// Whether no search leaves the arrays, whatever it looks for, and none finds
  /// more than `most` results.
  bool is_sound(std::size_t most) {
    return !units_.empty() && visit_all() && leaves_[0] <= most;
  }

 private:
  enum class State : std::uint8_t { unseen, open, closed };
  struct Step {
    std::size_t unit = 0;
    std::size_t label = 0;  ///< the next one to be tried
  };

  static constexpr std::size_t kLabels = 256;

  bool has_leaf(std::size_t unit) const { return (units_[unit] >> 8) & 1; }
  std::size_t children_of(std::size_t unit) const {
    const std::uint32_t value = units_[unit];
    return unit ^ ((value >> 10) << ((value & (1U << 9)) >> 6));
  }
  bool is_child(std::size_t unit, std::size_t label) const {
    return (units_[unit] & ((1U << 31) | 0xff)) == label;
  }

  /// Whether all that a search may look at next to the unit is there.
  bool stays_within(std::size_t unit) const {
    const std::size_t children = children_of(unit);
    if ((children | (kLabels - 1)) >= units_.size()) return false;
    return !has_leaf(unit) || (units_[children] & ~(1U << 31)) < texts_;
  }

  /// Depth first, from the root. Words may share their ends, but there are no
  /// rings: those would be words without end.
  bool visit_all() {
    std::vector<Step> path;
    if (!enter(0, path)) return false;
    while (!path.empty()) {
      Step& top = path.back();
      if (top.label == kLabels) {
        leave(path);
        continue;
      }
      const std::size_t label = top.label++;
      const std::size_t child = children_of(top.unit) ^ label;
      if (!is_child(child, label)) continue;
      if (states_[child] == State::open) return false;
      if (states_[child] == State::closed)
        leaves_[top.unit] = std::max(leaves_[top.unit], most_below(child));
      else if (!enter(child, path))
        return false;
    }
    return true;
  }

  bool enter(std::size_t unit, std::vector<Step>& path) {
    if (!stays_within(unit)) return false;
    states_[unit] = State::open;
    path.push_back({.unit = unit});
    return true;
  }

  void leave(std::vector<Step>& path) {
    const std::size_t unit = path.back().unit;
    states_[unit] = State::closed;
    path.pop_back();
    if (path.empty()) return;
    std::size_t& above = leaves_[path.back().unit];
    above = std::max(above, most_below(unit));
  }

  /// The results on the way through the unit.
  std::size_t most_below(std::size_t unit) const {
    return leaves_[unit] + (has_leaf(unit) ? 1 : 0);
  }

  std::vector<std::uint32_t> units_;
  std::vector<std::size_t> leaves_;  ///< most of them on a way below the unit
  std::vector<State> states_;
  std::size_t texts_;
};

/// What a rule replaces: a double array, its size before it, and the texts that
/// stand for what it finds.
bool is_sound_charsmap(std::string_view map) {
  constexpr std::size_t kMostResults = 32;  // what the library has room for
  if (map.empty()) return true;
  std::uint32_t size = 0;
  if (map.size() <= sizeof size) return false;
  std::memcpy(&size, map.data(), sizeof size);
  map.remove_prefix(sizeof size);
  if (size >= map.size() || map.back() != '\0') return false;
  return RuleArray(map.substr(0, size), map.size() - size)
      .is_sound(kMostResults);
}

void check_normalizer(std::string_view bytes, const std::string& source) {
  constexpr std::uint64_t kCharsmap = 2;
  MessageReader message(bytes, source);
  while (message.next())
    if (message.field() == kCharsmap && message.is_bytes() &&
        !is_sound_charsmap(message.bytes()))
      throw UserError(
          "{}: is a damaged tokenizer: its rules of normalization point out of "
          "it",
          source);
}

/// The user-defined piece that the message holds; empty where the piece is of
/// another kind.
std::string_view user_defined_piece(std::string_view bytes,
                                    const std::string& source) {
  constexpr std::uint64_t kPiece = 1;
  constexpr std::uint64_t kType = 3;
  constexpr std::uint64_t kUserDefined = 4;
  MessageReader message(bytes, source);
  std::string_view piece;
  std::uint64_t type = 0;
  while (message.next()) {
    if (message.field() == kPiece && message.is_bytes())
      piece = message.bytes();
    else if (message.field() == kType)
      type = message.number();
  }
  return type == kUserDefined ? piece : std::string_view();
}

/// Limits how many user-defined pieces begin alike: the library looks up all of
/// them that a text begins with.
void check_user_defined(std::vector<std::string_view> pieces,
                        const std::string& source) {
  constexpr std::size_t kMostResults = 64;  // what it has room for
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::string_view> begins;
  for (const std::string_view piece : pieces) {
    while (!begins.empty() && !piece.starts_with(begins.back()))
      begins.pop_back();
    begins.push_back(piece);
    if (begins.size() > kMostResults)
      throw UserError(
          "{}: has more than {} user-defined pieces each of which begins with "
          "the one before",
          source, kMostResults);
  }
}

}  // namespace

void check_tokenizer_file(std::string_view bytes, const std::string& source) {
  constexpr std::uint64_t kPiece = 1;
  constexpr std::uint64_t kNormalizer = 3;
  constexpr std::uint64_t kDenormalizer = 5;
  MessageReader model(bytes, source);
  std::vector<std::string_view> user_defined;
  while (model.next()) {
    if (!model.is_bytes()) continue;
    if (model.field() == kNormalizer || model.field() == kDenormalizer) {
      check_normalizer(model.bytes(), source);
    } else if (model.field() == kPiece) {
      const std::string_view piece = user_defined_piece(model.bytes(), source);
      if (!piece.empty()) user_defined.push_back(piece);
    }
  }
  check_user_defined(std::move(user_defined), source);
}

}  // namespace sluice
