#include "experiments/api/network_run.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/replica_settings.h"
#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/checkpoints/resume_check.h"
#include "experiments/runs/checkpoints/resumed_replicas.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/sinks/tensorboard.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/records.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

std::string command_of_network() {
  return fmt::format("{}", fmt::join(own_command_line(), " "));
}

std::vector<std::shared_ptr<Sink>> files_of_network(
    const Experiment& experiment, const RunFolder& folder) {
  const auto board =
      std::make_shared<TensorBoardFile>(folder.path(), folder.started());
  board->tell_config(experiment.resolved);
  for (const Record& record : folder.history()) board->write(record);
  return {folder.metrics(), board};
}

/// Number and rule of the replicas of the folder's run, as its config has them:
/// its policy may be one that this program lacks.
ReplicaSettings replicas_of_run(const Experiment& experiment,
                                const std::string& folder) {
  ReplicaSettings replicas{.count = experiment.replicas.count};
  const ConfigNode config = read_config_file(config_of_run(folder));
  const ConfigNode* table = config.find("replicas");
  if (table == nullptr) return replicas;
  const auto read = [&]<class Value>(const char* key, Value& value) {
    if (const ConfigNode* node = table->find(key))
      if (const auto* found = std::get_if<Value>(&node->value)) value = *found;
  };
  read("policy", replicas.policy);
  read("compress", replicas.compress);
  read("shard", replicas.kind.exchange.shards);
  return replicas;
}

records::Summary summary_of_network(const Experiment& experiment,
                                    const RunSink& sink) {
  records::Summary summary;
  summary.name = experiment.name;
  summary.method = method_of(experiment);
  summary.engine = name_of(experiment.engine);
  summary.blocks = experiment.blocks();
  if (const auto& last = sink.last_evaluation()) {
    summary.accuracy = last->accuracy;
    summary.loss = last->loss;
    summary.validation_accuracy = last->validation_accuracy;
    summary.validation_loss = last->validation_loss;
  }
  return summary;
}

}  // namespace

NetworkRun::NetworkRun(const Experiment& experiment, const RunOfNetwork& where)
    : experiment_(experiment),
      folder_(where.resume ? reopen(where) : open(where)),
      keeper_(folder_.checkpoints(), experiment.checkpoint.keep),
      sink_(std::make_shared<RunSink>(files_of_network(experiment, folder_),
                                      keeper_)),
      timeline_(
          std::make_shared<TimelineRecord>(experiment.seat_names(), sink_)),
      status_(
          std::make_shared<StatusFile>(experiment, folder_.path(), timeline_)),
      exceptions_(std::uncaught_exceptions()) {
  sink_->recall(folder_.history());
}

NetworkRun::~NetworkRun() {
  if (is_finished_) return;
  const bool has_failed = std::uncaught_exceptions() > exceptions_;
  try {
    timeline_->save(folder_.path());
    status_->finish(has_failed ? "failed" : "stopped");
  } catch (const std::exception&) {
    // The disk is full: what the program says of it comes first.
  }
}

RunFolder NetworkRun::open(const RunOfNetwork& where) {
  return RunFolder::make(where.folder, experiment_, command_of_network(),
                         {.overwrite = where.overwrite});
}

RunFolder NetworkRun::reopen(const RunOfNetwork& where) {
  if (where.overwrite)
    throw UserError("a run is either resumed or overwritten, not both");
  std::shared_ptr<FolderLock> lock = lock_run(where.folder);
  from_ = last_checkpoint(where.folder);
  check_continuable(experiment_, where.folder);
  check_same_replicas(experiment_, from_.checkpoint);
  check_same_policy(replicas_of_run(experiment_, where.folder),
                    experiment_.replicas, from_);
  for (const std::string& line : check_resume(experiment_, where.folder, from_))
    fmt::print(stderr, "sluice: {}\n", line);
  check_weights(experiment_, from_.checkpoint);
  from_.first_batch = continued_from(experiment_, from_.checkpoint).first_batch;
  return RunFolder::reopen(where.folder, std::move(lock), experiment_,
                           command_of_network(), from_);
}

void NetworkRun::write(const Record& record) {
  status_->write(record);
}

bool NetworkRun::saves_after(std::int64_t turns) const {
  return experiment_.checkpoint.keep.every.is_at(turns);
}

std::string NetworkRun::take_checkpoint(const std::string& checkpoint,
                                        std::int64_t turn) {
  move_checkpoint(checkpoint, folder_.checkpoints());
  return keeper_.kept(turn).folder;
}

void NetworkRun::finish() {
  records::Summary summary = summary_of_network(experiment_, *sink_);
  summary.seconds = seconds_since(started_);
  summary.samples_per_second =
      static_cast<double>(samples_) / std::max(*summary.seconds, 1e-9);
  sink_->write(summary);
  folder_.mark_done();
  timeline_->save(folder_.path());
  status_->finish("done");
  is_finished_ = true;
}

}  // namespace sluice
