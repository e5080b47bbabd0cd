#include "experiments/data/files/token_width.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kGroup = 8;  // bytes: the widest token
constexpr std::uint64_t kPieces = 64;
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 16;

/// How often each value occurs at one place of the groups.
struct Lane {
  std::array<double, 256> counts = {};
  double total = 0;

  double share(std::size_t value) const {
    return total > 0 ? counts.at(value) / total : 0;
  }
  double filled() const { return 1 - share(0); }
  std::size_t largest() const {
    for (std::size_t value = counts.size(); value-- > 0;)
      if (counts.at(value) > 0) return value;
    return 0;
  }
  /// Whether nothing but the upper bytes of small numbers is there: below
  /// `least`, or 255 of a negative number now and then.
  bool is_blank(std::size_t least = 1) const {
    constexpr double kMostNegative = 0.5;
    double sum = share(255);
    if (sum > kMostNegative) return false;
    for (std::size_t value = 0; value < least; ++value) sum += share(value);
    return sum > 1 - 1e-9;
  }
};

/// Half the sum of differences: 0 alike, 1 without a common value.
double distance(const Lane& one, const Lane& other) {
  double sum = 0;
  for (std::size_t value = 0; value < 256; ++value)
    sum += std::abs(one.share(value) - other.share(value));
  return sum / 2;
}

/// The bytes of a file by their place in groups of eight.
class ByteLanes {
 public:
  explicit ByteLanes(const RawFile& file) {
    const std::uint64_t bytes = file.size() / kGroup * kGroup;
    if (bytes <= kPieces * kPieceBytes) {
      count(file, 0, bytes);
      return;
    }
    for (std::uint64_t i = 0; i < kPieces; ++i)
      count(file, (bytes - kPieceBytes) / (kPieces - 1) * i / kGroup * kGroup,
            kPieceBytes);
  }

  std::uint64_t groups() const { return groups_; }
  const Lane& operator[](std::size_t place) const { return lanes_.at(place); }
  /// The largest number of 16 bits at these places of 0 to 3.
  std::uint32_t largest_word(std::initializer_list<std::size_t> places) const {
    std::uint32_t largest = 0;
    for (const std::size_t place : places)
      largest = std::max(largest, words_.at(place));
    return largest;
  }
  Lane together(std::initializer_list<std::size_t> places) const {
    Lane sum;
    for (const std::size_t place : places) {
      const Lane& lane = lanes_.at(place);
      sum.total += lane.total;
      for (std::size_t value = 0; value < 256; ++value)
        sum.counts.at(value) += lane.counts.at(value);
    }
    return sum;
  }
  bool are_blank(std::initializer_list<std::size_t> places) const {
    return std::all_of(places.begin(), places.end(), [&](std::size_t place) {
      return lanes_.at(place).is_blank();
    });
  }
  /// Whether one byte in ten at one of these places is not 0.
  bool are_filled(std::initializer_list<std::size_t> places) const {
    constexpr double kLeast = 0.1;
    return std::any_of(places.begin(), places.end(), [&](std::size_t place) {
      return lanes_.at(place).filled() >= kLeast;
    });
  }

 private:
  void count(const RawFile& file, std::uint64_t begin, std::uint64_t bytes) {
    std::vector<std::uint8_t> piece(static_cast<std::size_t>(bytes));
    file.read(begin, std::as_writable_bytes(std::span(piece)));
    for (std::size_t i = 0; i < piece.size(); ++i) {
      Lane& lane = lanes_.at(i % kGroup);
      lane.counts.at(piece[i]) += 1;
      lane.total += 1;
      if (i % 2 == 0) continue;
      const std::uint32_t word = piece[i - 1] | std::uint32_t{piece[i]} << 8;
      std::uint32_t& largest = words_.at(i % kGroup / 2);
      largest = std::max(largest, word);
    }
    groups_ += piece.size() / kGroup;
  }

  std::array<Lane, kGroup> lanes_ = {};
  std::array<std::uint32_t, kGroup / 2> words_ = {};
  std::uint64_t groups_ = 0;
};

/// The width that the tokens seem to have instead, and the evidence.
struct OtherWidth {
  std::string name;
  std::string evidence;
};
using Verdict = std::optional<OtherWidth>;

// Groups that are wanted before a likeness of histograms says anything.
constexpr std::uint64_t kLeastGroups = 256;

/// Whether single bytes are the tokens: their places in the groups have no part
/// in what they are. Numbers of 16 bits that are drawn evenly look alike too,
/// but have no value more often than others, and all values.
bool are_bytes(const ByteLanes& lanes) {
  constexpr double kAlike = 0.25;
  constexpr std::size_t kAll = 0xf0;
  constexpr double kFrequent = 0.02;
  if (lanes.groups() < kLeastGroups) return false;
  const Lane even = lanes.together({0, 2, 4, 6});
  const Lane odd = lanes.together({1, 3, 5, 7});
  if (odd.filled() < 0.1 || distance(even, odd) > kAlike ||
      distance(lanes.together({0, 1, 4, 5}), lanes.together({2, 3, 6, 7})) >
          kAlike)
    return false;
  double peak = 0;
  for (std::size_t value = 0; value < 256; ++value)
    peak = std::max(peak, (even.share(value) + odd.share(value)) / 2);
  return even.largest() < kAll || peak >= kFrequent;
}

/// Whether numbers of 64 bits are there: the upper half of each is 0, and the
/// lower one isn't.
bool are_long(const ByteLanes& lanes) {
  return lanes.are_blank({4, 5, 6, 7}) && lanes.are_filled({0, 1}) &&
         lanes.are_blank({3}) && lanes[2].is_blank(16);
}

/// Whether numbers of 32 bits are there that are below 2^20: above 2^16 they
/// have all lower halves.
bool are_of_four_bytes(const ByteLanes& lanes) {
  if (!lanes.are_blank({3, 7}) || !lanes[2].is_blank(16) ||
      !lanes[6].is_blank(16) || !lanes.are_filled({0, 1, 4, 5}))
    return false;
  constexpr std::uint32_t kMiddle = 1 << 14;
  return lanes.are_blank({2, 6}) || lanes.largest_word({0, 2}) >= kMiddle;
}

/// Whether the upper halves of 32 bits are numbers like the lower ones.
bool are_of_two_bytes(const ByteLanes& lanes) {
  const std::uint32_t upper = lanes.largest_word({1, 3});
  const std::uint32_t lower = lanes.largest_word({0, 2});
  return lanes.are_filled({2, 3, 6, 7}) && upper > 0 && lower < 16 * upper;
}

bool are_big_endian(const ByteLanes& lanes, std::size_t bytes) {
  if (bytes == 4)
    return lanes.are_blank({0, 4}) && lanes[1].is_blank(16) &&
           lanes[5].is_blank(16) && lanes.are_filled({2, 3, 6, 7});
  constexpr std::uint64_t kMany = 1024;
  constexpr std::size_t kAll = 0xf0;
  return bytes == 2 && lanes.groups() >= kMany &&
         lanes.together({0, 2, 4, 6}).largest() < kAll &&
         lanes.together({1, 3, 5, 7}).largest() >= kAll;
}

Verdict other_than_one_byte(const ByteLanes& lanes) {
  if (are_long(lanes)) return OtherWidth{"int64", "seven of eight are 0"};
  if (are_of_four_bytes(lanes))
    return OtherWidth{"uint32", "three of four are 0"};
  const Lane even = lanes.together({0, 2, 4, 6});
  const Lane odd = lanes.together({1, 3, 5, 7});
  if (odd.is_blank() && even.filled() >= 0.1)
    return OtherWidth{"uint16", "every second one is 0"};
  constexpr double kUnlike = 0.3;
  if (lanes.groups() >= kLeastGroups && distance(even, odd) > kUnlike)
    return OtherWidth{"uint16", "every second one is of another kind"};
  return std::nullopt;
}

Verdict other_than_two_bytes(const ByteLanes& lanes) {
  if (are_long(lanes))
    return OtherWidth{"int64", "three of four tokens would be 0"};
  if (are_of_four_bytes(lanes))
    return OtherWidth{"uint32",
                      fmt::format("every second token would be {}",
                                  lanes.are_blank({2, 6}) ? "0" : "below 16")};
  if (are_bytes(lanes))
    return OtherWidth{"uint8", "both bytes of its tokens are alike"};
  return std::nullopt;
}

Verdict other_than_four_bytes(const ByteLanes& lanes) {
  if (are_long(lanes))
    return OtherWidth{"int64", "every second token would be 0"};
  if (are_bytes(lanes))
    return OtherWidth{"uint8", "all bytes of its tokens are alike"};
  if (are_of_two_bytes(lanes))
    return OtherWidth{"uint16", "both halves of its tokens are alike"};
  return std::nullopt;
}

Verdict other_than_eight_bytes(const ByteLanes& lanes) {
  if (lanes.are_blank({4, 5, 6, 7}) || !lanes.are_filled({4, 5, 6, 7}))
    return std::nullopt;
  if (are_bytes(lanes))
    return OtherWidth{"uint8", "all bytes of its tokens are alike"};
  return OtherWidth{are_of_two_bytes(lanes) ? "uint16" : "uint32",
                    "its tokens would be above 2^32"};
}

Verdict other_than(const ByteLanes& lanes, TokenType type) {
  if (are_big_endian(lanes, type.bytes))
    return OtherWidth{"big-endian", "its first bytes are like upper ones"};
  if (type.bytes == 1) return other_than_one_byte(lanes);
  if (type.bytes == 2) return other_than_two_bytes(lanes);
  if (type.bytes == 4) return other_than_four_bytes(lanes);
  return other_than_eight_bytes(lanes);
}

}  // namespace

void check_token_width(const RawFile& file, TokenType type) {
  const ByteLanes lanes(file);
  constexpr std::uint64_t kLeast = 16;
  if (lanes.groups() < kLeast) return;
  const Verdict other = other_than(lanes, type);
  if (!other) return;
  const std::string remedy =
      other->name == "big-endian"
          ? "save it little-endian"
          : fmt::format("set data.dtype = \"{}\"", other->name);
  throw UserError(
      "{}: looks like {} and is read as {}: {}; {}, or, if it is {} indeed, "
      "write it with numpy.save(), whose header says so",
      file.path(), other->name, type.name(), other->evidence, remedy,
      type.name());
}

}  // namespace sluice
