#include "tests/benchmarks/block_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/metrics/records.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The first layer needs no gradient of its input, so block 1 has more to it;
// still more where no head works beside it.
constexpr BlockCase kCases[] = {
    {"mlp",
     "batch_size = 256\nturns = 100\nblocks = ['0-3', '4-']\n"
     "data = {name = 'drawn_digits', train = 4096, test = 128}\n"
     "model = {name = 'mlp', hidden = [1152, 1024, 1024, 1024, 1024, 1024, "
     "1024, 1024]}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n",
     "linear", "model.hidden=[1280,1024,1024,1024,1024,1024,1024,1024]"},
    {"conv",
     "batch_size = 64\nturns = 48\nblocks = ['0-6', '7-']\n"
     "data = {name = 'drawn_digits', train = 4096, test = 64}\n"
     "model = {name = 'resnet', depth = 32}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n"},
    {"gpt",
     "batch_size = 16\nturns = 60\nblocks = ['0-2', '3-']\n"
     "data = {name = 'text', file = 'ROOT/text', context = 64}\n"
     "model = {name = 'gpt', layers = 4, width = 128, heads = 4}\n"
     "optimizer = {name = 'adamw', lr = 1e-4}\n",
     "vocabulary"},
};

void write_text(const std::string& path) {
  constexpr int kBytes = 1 << 16;
  KeyedRandom random(1);
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < kBytes; ++i) file << static_cast<char>(random.below(65));
}

double balance_of(const std::vector<double>& work) {
  return *std::min_element(work.begin(), work.end()) /
         *std::max_element(work.begin(), work.end());
}

// Before this turn the pipe fills, and memory is touched for the first time.
constexpr std::int64_t kFirstTurn = 10;

/// From the first to the last update of the highest block that were logged.
class TurnTimes {
 public:
  void add(const records::Train& update) {
    if (update.turn < kFirstTurn || update.block < block_) return;
    if (update.block > block_) first_ = update;
    block_ = update.block;
    last_ = update;
  }
  double seconds() const {
    return (last_.time.value_or(0) - first_.time.value_or(0)) /
           static_cast<double>(last_.turn - first_.turn);
  }

 private:
  int block_ = 0;
  records::Train first_ = {};
  records::Train last_ = {};
};

MeasuredRun read_run(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  MeasuredRun measured;
  TurnTimes times;
  std::vector<double> work;
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (const auto update = record.as<records::Train>()) times.add(*update);
    if (record.text("kind") == "block")
      work.push_back(record.number("forward_s", 0) +
                     record.number("backward_s", 0) +
                     record.number("update_s", 0));
  }
  measured.seconds = times.seconds();
  if (work.empty() || !std::isfinite(measured.seconds))
    throw UserError("{}/metrics.jsonl doesn't say how long it took", folder);
  measured.balance = balance_of(work);
  return measured;
}

}  // namespace

std::span<const BlockCase> block_cases() {
  return kCases;
}

CaseFolder::CaseFolder(const std::string& only)
    : path_(fs::temp_directory_path() / "sluice-blocks-XXXXXX") {
  const auto is_it = [&](const BlockCase& each) { return each.name == only; };
  if (!only.empty() &&
      std::none_of(std::begin(kCases), std::end(kCases), is_it))
    throw UserError("no case '{}'; there are: mlp, conv, gpt", only);
  if (::mkdtemp(path_.data()) == nullptr)
    throw UserError("no folder can be made in {}",
                    fs::temp_directory_path().string());
  write_text(path_ + "/text");
}

CaseFolder::~CaseFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string write_case(const BlockCase& of, const std::string& root) {
  std::string config(of.config);
  if (const auto at = config.find("ROOT"); at != config.npos)
    config.replace(at, 4, root);
  std::ofstream(root + "/case.toml") << config;
  return config;
}

std::string pipeline_of(std::string_view method) {
  if (method == "2bw")
    return "{order = \"1f1b\", micro_batches = 2, weights = \"double_buffer\", "
           "flush = false}";
  const auto colon = method.find(':');
  if (colon == method.npos) return "";
  return fmt::format("{{order = \"{}\", micro_batches = {}}}",
                     method.substr(0, colon), method.substr(colon + 1));
}

std::string method_of(const BlockCase& of, std::string_view method) {
  if (const std::string pipeline = pipeline_of(method); !pipeline.empty())
    return fmt::format("boundary.policy=backprop drop_last=true 'pipeline={}'",
                       pipeline);
  std::string boundary = fmt::format("boundary.policy={}", method);
  if (method == "local_loss")
    boundary += fmt::format(" boundary.head.name={}", of.head);
  if (method == "features_replay") boundary += " boundary.statistics=forward";
  return boundary;
}

std::string balanced_for(const BlockCase& of, std::string_view method) {
  return std::string(method == "local_loss" ? "" : of.without_head);
}

MeasuredRun train_case(const std::string& root, const std::string& overrides) {
  const std::string command = fmt::format(
      "{} run {}/case.toml --dir {}/run --overwrite evaluate_every=0 "
      "log_every=10 trace.turns=0 {} > {}/log 2>&1",
      SLUICE_PROGRAM, root, root, overrides, root);
  if (std::system(command.c_str()) != 0)
    throw UserError("this failed, see {}/log: {}", root, command);
  return read_run(root + "/run");
}

}  // namespace sluice
