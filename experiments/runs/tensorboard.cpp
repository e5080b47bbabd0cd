#include "experiments/runs/tensorboard.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/crc32c.h"
#include "lib/base/errno_text.h"
#include "lib/base/error.h"
#include "lib/metrics/records.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so is this code");

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// CRC-32C, rotated and shifted as TFRecord wants it.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8U;
}

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// The wire format of protocol buffers: a field is its number and wire type,
// then the value.
enum class Wire : std::uint8_t {
  varint = 0,
  bits64 = 1,
  bytes = 2,
  bits32 = 5
};

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

std::string field(std::uint64_t number, Wire wire, const std::string& value) {
  return varint(number << 3 | static_cast<std::uint64_t>(wire)) + value;
}

std::string text_field(std::uint64_t number, std::string_view text) {
  return field(number, Wire::bytes, varint(text.size()) + std::string(text));
}

/// Event { double wall_time = 1; int64 step = 2; string file_version = 3;
///         Summary summary = 5; }
std::string event(double wall_time, std::int64_t step,
                  const std::string& content) {
  return field(1, Wire::bits64, bytes_of(wall_time)) +
         field(2, Wire::varint, varint(static_cast<std::uint64_t>(step))) +
         content;
}

/// Summary { repeated Value value = 1; }
/// Value { string tag = 1; float simple_value = 2; }
std::string scalar(std::string_view tag, double value) {
  const std::string content =
      text_field(1, tag) +
      field(2, Wire::bits32, bytes_of(static_cast<float>(value)));
  return text_field(1, content);
}

bool is_figure(const std::string& name, const Record::Value& value) {
  const bool is_number = std::holds_alternative<double>(value) ||
                         std::holds_alternative<std::int64_t>(value);
  return is_number && !records::is_place(name);
}

std::string scalars_of(const Record& record, const records::Place& place) {
  const std::string owner =
      place.block ? fmt::format("block{}", *place.block) : place.kind;
  std::string scalars;
  for (const auto& [name, value] : record.values)
    if (is_figure(name, value))
      scalars += scalar(owner + "/" + name, record.number(name, 0));
  return scalars;
}

void remove_old(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (TensorBoardFile::is_one(entry.path().filename().string()))
      fs::remove(entry.path());
}

std::string path_in(const std::string& folder, double start) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}/{}{:.0f}.{}", folder, kPrefix, start, host.data());
}

}  // namespace

bool TensorBoardFile::is_one(std::string_view file_name) {
  return file_name.starts_with(kPrefix);
}

TensorBoardFile::TensorBoardFile(const std::string& folder, double start)
    : path_(path_in(folder, start)), start_(start) {
  remove_old(folder);
  file_.open(path_);
  append(event(start_, 0, text_field(3, "brain.Event:2")));
  flush();
}

TensorBoardFile::~TensorBoardFile() {
  file_.flush();  // a full disk has been told by the metrics file
}

void TensorBoardFile::append(const std::string& event) {
  const std::string length = bytes_of(std::uint64_t{event.size()});
  file_ << length << bytes_of(masked_crc(length)) << event
        << bytes_of(masked_crc(event));
}

void TensorBoardFile::flush() {
  errno = 0;
  file_.flush();
  if (!file_) throw UserError("{}: can't be written: {}", path_, errno_text());
  flushed_ = std::chrono::steady_clock::now();
}

void TensorBoardFile::write(const Record& record) {
  const auto place = record.read<records::Place>();
  if (!place.turn) return;
  const std::string scalars = scalars_of(record, place);
  if (scalars.empty()) return;
  append(event(start_ + place.time.value_or(0), *place.turn,
               text_field(5, scalars)));
  if (seconds_since(flushed_) > 1) flush();
}

}  // namespace sluice
