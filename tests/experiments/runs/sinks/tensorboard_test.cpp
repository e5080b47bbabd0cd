// Event files are read back by a reader that shares nothing with the writer;
// scripts/check-interop lets TensorBoard itself read one.
#include "experiments/runs/sinks/tensorboard.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::tensorboard_test {

namespace fs = std::filesystem;

/// CRC-32C, bit by bit (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

template <class T>
T take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::vector<std::string> records_of(const std::string& path) {
  const std::string file = slurp(path);
  std::string_view rest = file;
  std::vector<std::string> records;
  while (!rest.empty()) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(take<std::uint32_t>(rest), masked(crc32c(length_bytes)));
    records.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(rest), masked(crc32c(records.back())));
  }
  return records;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

/// The fields of a message by number; repeated ones in order.
std::multimap<std::uint64_t, std::string> fields_of(std::string_view message) {
  std::multimap<std::uint64_t, std::string> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    std::size_t size = 0;
    switch (key & 7) {
      case 0: {
        const std::uint64_t value = take_varint(message);
        fields.emplace(key >> 3, std::to_string(value));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(message);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(key >> 3, std::string(message.substr(0, size)));
    message.remove_prefix(size);
  }
  return fields;
}

template <class T>
T value_of(const std::string& bytes) {
  std::string_view view = bytes;
  return take<T>(view);
}

class TensorBoard : public Program {
 protected:
  std::string event_file() const {
    for (const auto& entry : fs::directory_iterator(folder_))
      if (TensorBoardFile::is_one(entry.path().filename().string()))
        return entry.path().string();
    return "";
  }
};

Record training(std::int64_t turn, double loss) {
  Record record;
  record.set("kind", "train");
  record.set("turn", turn);
  record.set("block", std::int64_t{2});
  record.set("batch", turn);
  record.set("loss", loss);
  record.set("lr", 0.5);
  record.set("time", 3.0);
  return record;
}

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283);
}

TEST_F(TensorBoard, BeginsWithItsVersion) {
  const TensorBoardFile file(folder_, 1000);
  const auto events = records_of(event_file());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(fields_of(events[0]).find(3)->second, "brain.Event:2");
}

TEST_F(TensorBoard, HoldsAScalarForEachFigureOfABlock) {
  TensorBoardFile(folder_, 1000).write(training(300, 0.25));
  const auto events = records_of(event_file());
  ASSERT_EQ(events.size(), 2U);
  const auto event = fields_of(events[1]);
  EXPECT_EQ(value_of<double>(event.find(1)->second), 1003.0);
  EXPECT_EQ(event.find(2)->second, "300");
  std::map<std::string, float> scalars;
  const auto summary = fields_of(event.find(5)->second);
  for (const auto& [number, value] : summary) {
    EXPECT_EQ(number, 1U);
    const auto scalar = fields_of(value);
    scalars[scalar.find(1)->second] = value_of<float>(scalar.find(2)->second);
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"block2/loss", 0.25F},
                                                   {"block2/lr", 0.5F}}));
}

/// The values of an event's summary, field by field.
std::vector<std::multimap<std::uint64_t, std::string>> values_of(
    const std::string& event) {
  std::vector<std::multimap<std::uint64_t, std::string>> values;
  const auto fields = fields_of(event);
  for (const auto& [number, value] : fields_of(fields.find(5)->second)) {
    EXPECT_EQ(number, 1U);
    values.push_back(fields_of(value));
  }
  return values;
}

TEST_F(TensorBoard, NamesTheLayersOfABlock) {
  TensorBoardFile(folder_, 1000)
      .write(records::LayerProbe{
          {.turn = 3, .block = 2, .batch = 3}, 5, 0.5, 1.0, 0.75});
  std::set<std::string> tags;
  for (const auto& value : values_of(records_of(event_file()).at(1)))
    tags.insert(value.find(1)->second);
  EXPECT_EQ(tags, (std::set<std::string>{"block2/layer5/cosine",
                                         "block2/layer5/norm_ratio",
                                         "block2/layer5/sign_agreement"}));
}

/// Field `number` of a message, which is there once.
std::string in(const std::string& message, std::uint64_t number) {
  const auto fields = fields_of(message);
  EXPECT_EQ(fields.count(number), 1U) << number;
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

TEST_F(TensorBoard, HoldsTheConfigForThePageOfHyperparameters) {
  ConfigNode config;
  config.set_path("name", {.value = std::string("mine")});
  config.set_path("optimizer.lr", {.value = 0.5});
  config.set_path("optimizer.steps", {.value = std::int64_t{3}});
  config.set_path("drain", {.value = false});
  const ConfigNode eight = {.value = std::int64_t{8}};
  config.set_path("hidden", {.value = ConfigNode::Array{eight}});
  TensorBoardFile(folder_, 1000).tell_config(config);
  const auto events = records_of(event_file());
  ASSERT_EQ(events.size(), 2U);
  const auto values = values_of(events[1]);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].find(1)->second, "_hparams_/session_start_info");
  const std::string plugin = in(values[0].find(9)->second, 1);
  EXPECT_EQ(in(plugin, 1), "hparams");
  const std::string info = in(in(plugin, 2), 3);
  EXPECT_EQ(value_of<double>(in(info, 5)), 1000.0);
  std::map<std::string, std::multimap<std::uint64_t, std::string>> said;
  for (const auto& [number, entry] : fields_of(info))
    if (number == 1) said[in(entry, 1)] = fields_of(in(entry, 2));
  ASSERT_EQ(said.size(), 5U);
  EXPECT_EQ(said["name"].find(3)->second, "mine");
  EXPECT_EQ(value_of<double>(said["optimizer.lr"].find(2)->second), 0.5);
  EXPECT_EQ(value_of<double>(said["optimizer.steps"].find(2)->second), 3.0);
  EXPECT_EQ(said["drain"].find(4)->second, "0");
  EXPECT_EQ(said["hidden"].find(3)->second, "[8]");
}

Record of_block_1(std::int64_t turn, double time) {
  Record record = training(turn, 0.25);
  record.set("block", std::int64_t{1});
  record.set("time", time);
  return record;
}

TEST_F(TensorBoard, TellsTheSpeedOfTheTurnsBetweenTwoRecords) {
  {
    TensorBoardFile board(folder_, 1000);
    board.measure_speed(64);
    board.write(of_block_1(0, 1.0));
    board.write(of_block_1(1, 1.5));  // too early for a figure
    board.write(training(20, 0.25));  // another block's
    board.write(of_block_1(10, 3.0));
    board.write(of_block_1(20, 7.0));
  }
  std::vector<float> speeds;
  const auto events = records_of(event_file());
  for (std::size_t i = 1; i < events.size(); ++i)
    for (const auto& value : values_of(events[i]))
      if (value.find(1)->second == "speed/samples_per_second")
        speeds.push_back(value_of<float>(value.find(2)->second));
  EXPECT_EQ(speeds, (std::vector<float>{10 * 64 / 2.0F, 10 * 64 / 4.0F}));
}

TEST_F(TensorBoard, HasTheMemoryOfABlockAtTheLastTurn) {
  records::Block block{.block = 2};
  block.waiting_s = 7;
  block.memory.weights_bytes = 4096;
  {
    TensorBoardFile file(folder_, 1000);
    file.write(training(299, 0.5));
    file.write(training(300, 0.25));
    file.write(Record(block));
  }
  const auto events = records_of(event_file());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(fields_of(events[3]).find(2)->second, "300");
  const auto values = values_of(events[3]);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].find(1)->second, "block2/weights_bytes");
  EXPECT_EQ(value_of<float>(values[0].find(2)->second), 4096);
}

TEST_F(TensorBoard, ReplacesTheFileOfTheRunThatIsContinued) {
  TensorBoardFile(folder_, 1000).write(training(1, 0.25));
  const TensorBoardFile file(folder_, 2000);
  EXPECT_EQ(records_of(event_file()).size(), 1U);
  EXPECT_NE(event_file().find("2000"), std::string::npos);
}

TEST_F(TensorBoard, LeavesOutWhatIsAboutNoTurn) {
  Record record;
  record.set("kind", "summary");
  record.set("accuracy", 0.5);
  TensorBoardFile(folder_, 1000).write(record);
  EXPECT_EQ(records_of(event_file()).size(), 1U);
}

}  // namespace sluice::tensorboard_test
