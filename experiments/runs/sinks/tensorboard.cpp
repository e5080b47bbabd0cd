#include "experiments/runs/sinks/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <variant>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/crc32c.h"
#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
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

/// Prefix of a record's scalars: "block1", "block1/layer0" or "evaluation".
std::string owner_of(const records::Place& place) {
  if (!place.block) return place.kind;
  return place.layer
             ? fmt::format("block{}/layer{}", *place.block, *place.layer)
             : fmt::format("block{}", *place.block);
}

bool is_memory(const std::string& name, const Record::Value& value) {
  return is_figure(name, value) && name.ends_with("_bytes");
}

std::string scalars_of(const Record& record, const records::Place& place,
                       bool (*is_wanted)(const std::string& name,
                                         const Record::Value& value)) {
  const std::string owner = owner_of(place);
  std::string scalars;
  for (const auto& [name, value] : record.values)
    if (is_wanted(name, value))
      scalars +=
          scalar(fmt::format("{}/{}", owner, name), record.number(name, 0));
  return scalars;
}

/// google.protobuf.Value { double number_value = 2; string string_value = 3;
///                         bool bool_value = 4; }
std::string hparam_value(const ConfigNode& node) {
  if (const auto* flag = std::get_if<bool>(&node.value))
    return field(4, Wire::varint, varint(*flag ? 1 : 0));
  if (const auto* whole = std::get_if<std::int64_t>(&node.value))
    return field(2, Wire::bits64, bytes_of(static_cast<double>(*whole)));
  const auto* number = std::get_if<double>(&node.value);
  if (number != nullptr && std::isfinite(*number))  // JSON has no others
    return field(2, Wire::bits64, bytes_of(*number));
  if (const auto* text = std::get_if<std::string>(&node.value))
    return text_field(3, *text);
  return text_field(3, node.literal());
}

/// Entries of SessionStartInfo { map<string, Value> hparams = 1; }
void add_hparams(const ConfigNode& node, const std::string& name,
                 std::string& entries) {
  if (const auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    for (const auto& [key, child] : *table)
      add_hparams(child, name.empty() ? key : fmt::format("{}.{}", name, key),
                  entries);
    return;
  }
  entries +=
      text_field(1, text_field(1, name) + text_field(2, hparam_value(node)));
}

/// TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2;
///               repeated float float_val = 5; }: a zero, because a summary
/// wants a value.
std::string zero_tensor() {
  constexpr std::uint64_t kFloat = 1;
  const std::string shape =
      text_field(2, field(1, Wire::varint, varint(1)));  // a dimension of 1
  return field(1, Wire::varint, varint(kFloat)) + text_field(2, shape) +
         text_field(5, bytes_of(0.0F));
}

/// Value { string tag = 1; TensorProto tensor = 8;
///         SummaryMetadata metadata = 9; }
/// SummaryMetadata { PluginData plugin_data = 1; }
/// PluginData { string plugin_name = 1; bytes content = 2; }, a
/// HParamsPluginData { SessionStartInfo session_start_info = 3; }
std::string session_start(const std::string& info) {
  const std::string plugin =
      text_field(1, "hparams") + text_field(2, text_field(3, info));
  return text_field(1, text_field(1, "_hparams_/session_start_info") +
                           text_field(8, zero_tensor()) +
                           text_field(9, text_field(1, plugin)));
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
  file_.flush();  // the metrics file has reported a full disk
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

void TensorBoardFile::tell_config(const ConfigNode& resolved) {
  std::string info;
  add_hparams(resolved, "", info);
  info += field(5, Wire::bits64, bytes_of(start_));
  append(event(start_, 0, text_field(5, session_start(info))));
}

std::string TensorBoardFile::speed_of(const Record& record) {
  constexpr double kSpeedPeriod = 1;  // s
  const auto train = record.as<records::Train>();
  if (samples_per_turn_ <= 0 || !train || train->block != 1 ||
      train->replica.value_or(1) != 1)
    return "";
  const ReachedTurn now = {.turn = train->turn,
                           .time = train->time.value_or(0)};
  if (!measured_ || now.turn < measured_->turn) measured_ = now;
  const double seconds = now.time - measured_->time;
  if (seconds < kSpeedPeriod) return "";
  const auto turns = static_cast<double>(now.turn - measured_->turn);
  measured_ = now;
  return scalar("speed/samples_per_second",
                turns * samples_per_turn_ / seconds);
}

void TensorBoardFile::write(const Record& record) {
  const auto place = record.read<records::Place>();
  if (!place.turn && !record.is<records::Block>()) return;
  const std::string scalars =
      place.turn ? scalars_of(record, place, is_figure) + speed_of(record)
                 : scalars_of(record, place, is_memory);
  if (scalars.empty()) return;
  last_turn_ = std::max(last_turn_, place.turn.value_or(0));
  append(event(start_ + place.time.value_or(0), place.turn.value_or(last_turn_),
               text_field(5, scalars)));
  if (seconds_since(flushed_) > 1) flush();
}

}  // namespace sluice
