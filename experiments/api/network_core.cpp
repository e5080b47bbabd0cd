#include "experiments/api/network_core.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "experiments/api/own_parts.h"
#include "experiments/api/policy_draws.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/left_out.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/checkpoints/resumed_replicas.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/crews.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/base/files/output_file.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/base/random.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/engines/linked_crew.h"
#include "lib/metrics/records.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// As make_layers() does: layers of ours set their weights by key, plain
/// modules keep those that they have.
OwnModel initialised(OwnModel own, std::uint64_t seed) {
  for (std::size_t i = 0; i < own.layers.size(); ++i)
    own.layers[i]->initialise(random_key({seed, i, key_part("weights")}));
  return own;
}

/// Heads, which it makes to ask them for their traits, draw while they are
/// made.
Experiment read_quietly(const ConfigNode& config, const NetworkOptions& options,
                        const OwnModel& own) {
  add_own_parts(options);
  const GeneratorGuard kept;
  return read_network(config, {.model = own.model,
                               .policies = options.policies,
                               .replica_policies = options.replica_policies,
                               .writes_run = !options.run.folder.empty()});
}

std::int64_t longest_delay(const RunPlan& plan) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max(longest, turns_in_flight(block));
  return longest;
}

}  // namespace

at::Tensor own_copy(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous() || tensor.numel() == 0)
    return tensor.detach().clone(at::MemoryFormat::Contiguous);
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options());
  std::memcpy(copy.mutable_data_ptr(), tensor.const_data_ptr(),
              tensor.nbytes());
  return copy;
}

NetworkCore::NetworkCore(const NetworkOptions& options,
                         const ConfigNode& config, WorkerProgram program)
    : own_(make_own_model(options.layers, options.example)),
      experiment_(read_quietly(config, options, own_)),
      program_(std::move(program)),
      whole_(experiment_, initialised(own_, experiment_.seed).layers) {
  tell_left_out(experiment_.left_out);
  if (experiment_.engine == Engine::processes && program_.file.empty())
    throw UserError(
        "engine = 'processes' starts this program anew for each block: let "
        "sluice::main() make the network (experiments/api/program.h)");
  if (!options.policies.empty()) {
    draws_ = noted_draws(experiment_);
    draw_from(draws_, own_.turn, experiment_);
  }
  open_run(options.run);
  const std::string resume = run_ ? run_->from().checkpoint : "";
  start(resume.empty() ? "" : fs::absolute(resume).string());
}

NetworkCore::~NetworkCore() = default;

void NetworkCore::start(const std::string& resume) {
  // Heads are made here or in other processes; the program's draws are the
  // same.
  const GeneratorGuard kept;
  if (!experiment_.initial_weights.empty())
    check_weights(experiment_, experiment_.initial_weights);
  const CrewParts parts{
      .experiment = experiment_,
      .files = {.checkpoints = checkpoints_of_run(scratch_.path()),
                .resume = resume},
      .events = {.record = [this](const Record& record) { collect(record); }},
      .batches = Batches::with_grants,
      .ahead = grants_ahead(blocks())};
  crew_.reset();
  if (experiment_.engine == Engine::processes) {
    write_config();
    crew_ = make_process_crew(parts,
                              {.folder = scratch_.path(), .program = program_});
  } else if (experiment_.engine == Engine::threads) {
    crew_ = make_thread_crew(parts);
  } else {
    crew_ = make_virtual_crew(parts);
  }
  failed_ = false;
  whole_is_fresh_ = false;
  // Blocks make their layers again for each version of the weights that batches
  // in flight refer to, and factories draw from this program's generator: until
  // the pipe is full of versions, which it is two delays after its first turn.
  const RunPlan& plan = experiment_.plans.front();
  first_turns_end_ =
      turn_ + 2 * (longest_delay(plan) + plan.blocks.front().accumulate) + 1;
  give({.first_turn = turn_, .end_turn = turn_, .first_batch = first_batch_});
  wait();
}

/// What worker processes start from: the config, the weights that the modules
/// of this process were made with, and what its policies draw.
void NetworkCore::write_config() const {
  ConfigNode config = experiment_.resolved;
  std::string weights = experiment_.initial_weights;
  if (weights.empty()) {
    weights = scratch_.path() + "/initial.safetensors";
    if (!fs::exists(weights)) write_safetensors(weights, whole_.tensors());
  }
  config.set("initial_weights", {.value = fs::absolute(weights).string()});
  if (!draws_.empty())
    write_safetensors(draws_of_network(scratch_.path()), draws_);
  OutputFile file(config_of_run(scratch_.path()));
  file << to_toml(config);
  if (!file.flush()) throw UserError("{}: can't be written", scratch_.path());
}

void NetworkCore::give(Grant grant, std::span<const Batch> batches) {
  if (failed_)
    throw UserError(
        "a block of this network has failed; load() a checkpoint, or make it "
        "anew");
  if (is_finished_)
    throw UserError("this network has been finished: it trains no more");
  try {
    crew_->give(grant, batches);
    ++given_;
  } catch (...) {
    failed_ = true;
    throw;
  }
}

void NetworkCore::check_figures_of(int block, int replica) const {
  if (block < 1 || block > blocks())
    throw UserError("block {}: the network has the blocks 1 to {}", block,
                    blocks());
  if (replica < 1 || replica > replicas())
    throw UserError("replica {}: the network has the replicas 1 to {}", replica,
                    replicas());
}

void NetworkCore::wait(std::size_t ahead) {
  if (failed_) return;
  const auto left = [this] {
    const CrewProgress now = crew_->progress();
    return now.given - now.slowest;
  };
  try {
    while (left() > ahead) crew_->wait();
  } catch (...) {
    failed_ = true;
    throw;
  }
}

void NetworkCore::collect(const Record& record) {
  if (run_) run_->write(record);
  if (!record.is<records::Train>() && !record.is<records::Lesson>()) return;
  const auto place = record.read<records::BatchFields>();
  const auto found = records_.find(place.turn);
  if (found == records_.end()) return;
  Record& kept = (*found->second)[{place.block, place.replica.value_or(1)}];
  for (const auto& [name, value] : record.values)
    if (name != "kind" && !kept.find(name)) kept.set(name, value);
}

Step NetworkCore::step(const at::Tensor& inputs, const at::Tensor& labels) {
  check_inputs(inputs);
  check_labels(labels, inputs.size(0));
  check_dealing(inputs.size(0));
  if (run_) {
    run_->add_samples(inputs.size(0));
    const std::int64_t size = inputs.size(0) / replicas();
    if (experiment_.batch_size != size)  // status.json tells it
      experiment_.batch_size = size;
  }
  const std::size_t ahead = crew_->progress().ahead;
  const auto records = std::make_shared<Step::Records>();
  records_[turn_] = records;
  std::erase_if(records_, [&](const auto& item) {
    return item.first + static_cast<std::int64_t>(ahead) + 1 < turn_;
  });
  const std::size_t grant = given_;
  const std::int64_t turn = turn_;
  give({.first_turn = turn, .end_turn = turn + 1, .first_batch = first_batch_},
       dealt(inputs, labels));
  whole_is_fresh_ = false;
  wait(turn < first_turns_end_ ? 0 : ahead);
  ++turn_;
  save_when_due();
  return {*this, turn, grant, records};
}

void NetworkCore::drain() {
  wait();
  records_.clear();  // the turns of the drain have numbers that come again
  give({.first_turn = turn_,
        .end_turn = turn_,
        .first_batch = first_batch_,
        .drain = true});
  wait();
  first_batch_ = turn_;
  whole_is_fresh_ = false;
}

NamedTensors NetworkCore::weights() {
  if (is_finished_) {
    NamedTensors copies;
    for (const auto& [name, tensor] : last_weights_)
      copies.emplace_back(name, own_copy(tensor));
    return copies;
  }
  wait();
  // What several replicas agree on is made for checkpoints alone.
  if (!failed_ && replicas() == 1)
    if (const auto shared = crew_->weights()) {
      NamedTensors copies;
      for (const auto& [name, tensor] : *shared)
        copies.emplace_back(name, own_copy(tensor));
      return copies;
    }
  const std::string folder = checkpoint();
  NamedTensors saved = load_weights(folder);
  remove_checkpoint(folder);
  return saved;
}

void NetworkCore::refresh_whole() {
  if (whole_is_fresh_) return;
  copy_by_name(weights(), whole_.tensors(), "the blocks");
  whole_is_fresh_ = true;
}

at::Tensor NetworkCore::forward(const at::Tensor& inputs) {
  check_inputs(inputs);
  refresh_whole();
  const at::NoGradGuard no_grad;
  const PrecisionScope precision(experiment_.precision);
  const at::Tensor images =
      laid_out(own_copy(inputs), experiment_.memory_format);
  return whole_.forward({images}, {.seed = experiment_.seed, .training = false})
      .at(0);
}

Evaluation NetworkCore::evaluate(const at::Tensor& inputs,
                                 const at::Tensor& labels) {
  check_inputs(inputs);
  check_labels(labels, inputs.size(0));
  const at::NoGradGuard no_grad;
  Evaluation evaluation;
  evaluation.add(experiment_.loss.evaluation, forward(inputs), labels);
  return evaluation;
}

/// Path of a checkpoint in the scratch folder, once all blocks have written
/// their part.
std::string NetworkCore::checkpoint() {
  give({.first_turn = turn_,
        .end_turn = turn_,
        .first_batch = first_batch_,
        .checkpoint = true});
  wait();
  const std::string folder = checkpoints_of_run(scratch_.path());
  finish_checkpoint(folder, turn_);
  return checkpoint_folder(folder, turn_);
}

void NetworkCore::load(const std::string& path) {
  wait();
  const std::optional<std::int64_t> turn =
      turn_of(fs::weakly_canonical(path).string());
  if (run_ && (turn_ > 0 || turn.value_or(0) > 0))
    throw UserError(
        "load(): this network writes a run, which goes on from its own "
        "checkpoints: set RunOfNetwork::resume");
  check_weights(experiment_, path);
  if (turn) check_same_replicas(experiment_, path);
  first_batch_ = turn ? continued_from(experiment_, path).first_batch : 0;
  turn_ = turn.value_or(0);
  if (!turn) experiment_.initial_weights = path;
  records_.clear();
  start(turn ? fs::absolute(path).string() : "");
}

}  // namespace sluice
