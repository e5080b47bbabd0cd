// What a network writes into files: its run, and checkpoints elsewhere.
#include "experiments/api/network_core.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/records.h"

namespace sluice {

void NetworkCore::open_run(const RunOfNetwork& run) {
  if (run.folder.empty()) return;
  if (!run.resume && !experiment_.initial_weights.empty())
    check_weights(experiment_, experiment_.initial_weights);
  run_ = std::make_unique<NetworkRun>(experiment_, run);
  turn_ = run_->from().turn;
  first_batch_ = run_->from().first_batch;
}

std::string NetworkCore::save(const std::string& folder) {
  if (!folder.empty()) return move_checkpoint(checkpoint(), folder);
  if (!run_)
    throw UserError(
        "save(): the network writes no run: give a folder, or "
        "NetworkOptions::run one");
  return run_->take_checkpoint(checkpoint(), turn_);
}

void NetworkCore::save_when_due() {
  if (run_ && run_->saves_after(turn_)) save("");
}

void NetworkCore::record(const Evaluation& test, const Evaluation* validation) {
  if (!run_)
    throw UserError(
        "record(): the network writes no run: give NetworkOptions::run a "
        "folder");
  wait();
  records::Evaluation said;
  said.turn = turn_;
  said.epoch = static_cast<double>(turn_) /
               static_cast<double>(experiment_.turns_per_epoch);
  said.loss = test.loss();
  said.accuracy = test.accuracy();
  if (test.has_r2()) said.r2 = test.r2();
  if (validation != nullptr) {
    said.validation_loss = validation->loss();
    said.validation_accuracy = validation->accuracy();
    if (validation->has_r2()) said.validation_r2 = validation->r2();
  }
  run_->write(said);
}

void NetworkCore::finish() {
  if (is_finished_) return;
  last_weights_ = weights();
  give({.first_turn = turn_,
        .end_turn = turn_,
        .first_batch = first_batch_,
        .checkpoint = run_ != nullptr,
        .finish = true});
  wait();
  is_finished_ = true;
  if (!run_) return;
  const std::string folder = checkpoints_of_run(scratch_.path());
  finish_checkpoint(folder, turn_);
  run_->take_checkpoint(checkpoint_folder(folder, turn_), turn_);
  run_->finish();
}

}  // namespace sluice
