#include "experiments/data/files/npy_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyType {
  std::string_view code;
  DType dtype;
};

// The first character is the order of the bytes; "|" where there is only one.
constexpr std::array kNpyTypes = {
    NpyType{"<f4", DType::float32}, NpyType{"<f8", DType::float64},
    NpyType{"<f2", DType::float16}, NpyType{"<i8", DType::int64},
    NpyType{"<i4", DType::int32},   NpyType{"<i2", DType::int16},
    NpyType{"|i1", DType::int8},    NpyType{"|u1", DType::uint8},
    NpyType{"|b1", DType::boolean},
};

/// Goes through the dictionary that is the header: a literal of Python's with
/// three keys, in any order.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& path)
      : rest_(text), path_(path) {}

  NpyForm read() {
    take("{");
    while (!takes("}")) {
      const std::string_view key = string();
      take(":");
      read_value(key);
      if (takes(",")) continue;
      take("}");
      break;
    }
    skip_spaces();
    if (!rest_.empty() || !has_type_ || !has_order_ || !has_sizes_) fail();
    return form_;
  }

 private:
  void read_value(std::string_view key) {
    if (key == "descr" && !has_type_) {
      has_type_ = true;
      read_type();
    } else if (key == "fortran_order" && !has_order_) {
      has_order_ = true;
      read_order();
    } else if (key == "shape" && !has_sizes_) {
      has_sizes_ = true;
      read_sizes();
    } else {
      fail();
    }
  }

  void read_type() {
    skip_spaces();
    if (rest_.starts_with("["))
      throw UserError(
          "{}: holds records; save each field as an array of its own", path_);
    form_.code = string();
    if (form_.code.starts_with(">"))
      throw UserError(
          "{}: its numbers ({}) are big-endian; save them little-endian", path_,
          form_.code);
  }

  void read_order() {
    if (takes("True"))
      throw UserError(
          "{}: is in Fortran's order; save numpy.ascontiguousarray() of it",
          path_);
    take("False");
  }

  void read_sizes() {
    take("(");
    while (!takes(")")) {
      form_.sizes.push_back(number());
      if (form_.sizes.size() > kMaxDimensions)
        throw UserError("{}: has more than {} dimensions", path_,
                        kMaxDimensions);
      if (takes(",")) continue;
      take(")");
      break;
    }
  }

  std::int64_t number() {
    skip_spaces();
    std::int64_t value = -1;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  /// A text in single or double quotes, without escapes.
  std::string_view string() {
    skip_spaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) fail();
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) fail();
    const std::string_view text = rest_.substr(1, end - 1);
    for (const char c : text)
      if (c < ' ' || c > '~') fail();
    rest_.remove_prefix(end + 1);
    return text;
  }

  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n'))
      rest_.remove_prefix(1);
  }

  bool takes(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void take(std::string_view word) {
    if (!takes(word)) fail();
  }

  [[noreturn]] void fail() const {
    throw UserError("{}: its .npy header is damaged", path_);
  }

  std::string_view rest_;
  const std::string& path_;
  NpyForm form_;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_sizes_ = false;
};

/// Number in the bytes [begin, begin + count), little-endian.
std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::size_t begin,
                        std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < count; ++i)
    number |= std::uint64_t{bytes[begin + i]} << (8 * i);
  return number;
}

DType type_of(const NpyForm& form, const std::string& path) {
  for (const NpyType& type : kNpyTypes)
    if (type.code == form.code) return type.dtype;
  throw UserError(
      "{}: holds '{}'; save it as float32, float64, float16, int64, int32, "
      "int16, int8, uint8 or bool",
      path, form.code);
}

/// Throws unless the file ends with the last number.
void check_npy_size(const PackedArray& array, const std::string& path,
                    std::uint64_t file_bytes) {
  std::uint64_t bytes = size_of(array.dtype);
  for (const std::int64_t size : array.sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 &&
        bytes > std::numeric_limits<std::uint64_t>::max() / factor)
      throw UserError("{}: its shape overflows", path);
    bytes *= factor;
  }
  if (file_bytes < array.begin || file_bytes - array.begin != bytes)
    throw UserError(
        "{}: has {} bytes behind its header, whose shape and type need {}",
        path, file_bytes - std::min(file_bytes, array.begin), bytes);
}

}  // namespace

NpyForm read_npy_form(std::span<const std::uint8_t> head,
                      const std::string& path) {
  constexpr std::size_t kVersionAt = 6;
  constexpr std::size_t kLengthAt = 8;
  if (head.size() < kLengthAt + 4 ||
      !std::equal(kNpyMagic.begin(), kNpyMagic.end(), head.begin(),
                  [](char magic, std::uint8_t byte) {
                    return static_cast<std::uint8_t>(magic) == byte;
                  }))
    throw UserError("{}: is not a .npy file", path);
  const unsigned version = head[kVersionAt];
  if (version < 1 || version > 3)
    throw UserError("{}: is a .npy file of version {}; 1 to 3 are known", path,
                    version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t text_at = kLengthAt + length_bytes;
  const std::uint64_t length = number_at(head, kLengthAt, length_bytes);
  if (length > head.size() - text_at)
    throw UserError(
        "{}: has a .npy header of {} bytes, which goes on behind the file's "
        "end or is no array's",
        path, length);
  const std::string_view text(
      reinterpret_cast<const char*>(head.data()) + text_at,
      static_cast<std::size_t>(length));
  NpyForm form = NpyDictionary(text, path).read();
  form.begin = text_at + length;
  return form;
}

PackedArray read_npy_header(std::span<const std::uint8_t> head,
                            const std::string& path, std::uint64_t file_bytes) {
  NpyForm form = read_npy_form(head, path);
  const PackedArray array = {.dtype = type_of(form, path),
                             .sizes = std::move(form.sizes),
                             .begin = form.begin};
  check_npy_size(array, path, file_bytes);
  return array;
}

}  // namespace sluice
