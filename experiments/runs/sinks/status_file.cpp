#include "experiments/runs/sinks/status_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "experiments/config/tables/lengths.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/moved_folder.h"
#include "lib/base/files/output_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kStatusPeriod = 1;  // s

/// As write_file_atomically(), but not synced: a status is worth nothing after
/// the machine has gone down.
void replace_file(const std::string& path, const std::string& text) {
  const std::string beside = path + ".partial";
  errno = 0;
  OutputFile file(beside);
  file << text;
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0)
    throw UserError("{}: can't be written: {}", path, errno_text());
}

/// NaN and infinities have no place in JSON.
void set_number(Json& into, const char* name, std::optional<double> number) {
  if (!number) return;
  if (std::isfinite(*number))
    into[name] = *number;
  else
    into[name] = std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf";
}

}  // namespace

std::string status_of_run(const std::string& folder) {
  return folder + "/status.json";
}

StatusFile::StatusFile(const Experiment& experiment, std::string folder,
                       std::shared_ptr<Sink> next)
    : experiment_(experiment),
      path_(status_of_run(folder)),
      next_(std::move(next)) {}

void StatusFile::write(const Record& record) {
  if (const auto train = record.as<records::Train>())
    blocks_[{train->replica.value_or(1), train->block}].train = train;
  if (const auto evaluation = record.as<records::Evaluation>())
    evaluation_ = evaluation;
  // Blocks of a lost replica send no more records.
  if (const auto lost = record.as<records::LostReplica>())
    std::erase_if(blocks_, [&](const auto& each) {
      return each.first.first == lost->replica;
    });
  if (const auto status = record.as<records::Status>())
    remember(*status);
  else
    next_->write(record);
  if (seconds_since(saved_) < kStatusPeriod) return;
  try {
    save("running");
  } catch (const UserError&) {
    // The next one may be written; the run goes on without.
  }
}

void StatusFile::remember(const records::Status& status) {
  BlockStatus& block = blocks_[{status.replica.value_or(1), status.block}];
  const records::Status before = block.status.value_or(records::Status());
  const double passed = status.clock - before.clock;
  if (block.heard > 0 && passed > 0) {
    block.turns_per_second =
        static_cast<double>(status.turn - before.turn) / passed;
    block.waiting_share =
        std::clamp((status.waiting_s - before.waiting_s) / passed, 0.0, 1.0);
  }
  block.status = status;
  block.heard = seconds_since_1970();
}

void StatusFile::finish(const std::string& state) {
  work_while_moved(std::filesystem::path(path_).parent_path().string(),
                   [&] { save(state); });
}

void StatusFile::save(const std::string& state) {
  saved_ = std::chrono::steady_clock::now();
  const Epochs epochs = epochs_of(experiment_);
  const Deals& deals = epochs.deals;
  Json json = {{"name", experiment_.name},
               {"method", method_of(experiment_)},
               {"engine", name_of(experiment_.engine)},
               {"state", state},
               {"written", seconds_since_1970()},
               {"turns_per_epoch", static_cast<double>(epochs.batches) /
                                       static_cast<double>(deals.replicas)},
               {"turns_ahead", deals.turns_by(deals.since_turn) -
                                   static_cast<double>(deals.since_turn)},
               {"samples_per_turn", samples_per_turn(experiment_)}};
  // The length of a user's own loop is unknown.
  if (experiment_.length.turns < std::numeric_limits<std::int64_t>::max())
    json["turns"] = experiment_.length.turns;
  if (evaluation_) {
    set_number(json, "test_loss", evaluation_->loss);
    if (!std::isnan(evaluation_->accuracy))  // the targets are numbers
      set_number(json, "test_accuracy", evaluation_->accuracy);
    set_number(json, "test_r2", evaluation_->r2);
    set_number(json, "validation_loss", evaluation_->validation_loss);
    set_number(json, "validation_accuracy", evaluation_->validation_accuracy);
  }
  Json list = Json::array();
  for (const auto& [seat, block] : blocks_) {
    Json one = {{"block", seat.second}};
    if (experiment_.replicas.count > 1) one["replica"] = seat.first;
    one.update({{"turn", std::max(block.status ? block.status->turn : 0,
                                  block.train ? block.train->turn : 0)},
                {"turns_per_second", block.turns_per_second},
                {"waiting_share", block.waiting_share},
                {"heard", block.heard}});
    if (block.train) {
      set_number(one, "loss", block.train->loss);
      set_number(one, "accuracy", block.train->accuracy);
      set_number(one, "staleness", static_cast<double>(block.train->d_batch));
    }
    if (block.status) {
      set_number(one, "queue_below_bytes",
                 static_cast<double>(block.status->queue_below_bytes));
      set_number(one, "queue_above_bytes",
                 static_cast<double>(block.status->queue_above_bytes));
    }
    list.push_back(std::move(one));
  }
  json["blocks"] = std::move(list);
  replace_file(path_, json.dump(1) + "\n");
}

}  // namespace sluice
