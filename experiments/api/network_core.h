#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/api/network_options.h"
#include "experiments/api/network_run.h"
#include "experiments/api/own_model.h"
#include "experiments/api/step.h"
#include "experiments/config/experiment.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/runs/seats/assembled_model.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/blocks/evaluation.h"
#include "lib/engines/crew.h"

namespace sluice {

/// What a Network (network.h) is: its functions mean what they mean there.
/// Apart from it, so that programs needn't read the headers of all that it is
/// made of.
class NetworkCore {
 public:
  /// program: what worker processes are started from; without a file they
  /// can't be.
  NetworkCore(const NetworkOptions& options, const ConfigNode& config,
              WorkerProgram program);
  ~NetworkCore();
  NetworkCore(const NetworkCore&) = delete;
  NetworkCore& operator=(const NetworkCore&) = delete;

  Step step(const at::Tensor& inputs, const at::Tensor& labels);
  void drain();
  at::Tensor forward(const at::Tensor& inputs);
  Evaluation evaluate(const at::Tensor& inputs, const at::Tensor& labels);
  NamedTensors weights();
  std::string save(const std::string& folder);
  void load(const std::string& path);
  void record(const Evaluation& test, const Evaluation* validation);
  void finish();

  std::int64_t turns() const { return turn_; }
  int blocks() const { return experiment_.blocks(); }
  int replicas() const { return static_cast<int>(experiment_.replicas.count); }
  /// Throws UserError where there is no such block, or replica of one.
  void check_figures_of(int block, int replica) const;

 private:
  friend class Step;

  void open_run(const RunOfNetwork& run);
  void start(const std::string& resume);
  void write_config() const;
  void give(Grant grant, std::span<const Batch> batches = {});
  void wait(std::size_t ahead = 0);
  void collect(const Record& record);
  void check_inputs(const at::Tensor& inputs) const;
  void check_labels(const at::Tensor& labels, std::int64_t samples) const;
  void check_dealing(std::int64_t samples) const;
  std::vector<Batch> dealt(const at::Tensor& inputs,
                           const at::Tensor& labels) const;
  void save_when_due();
  std::string checkpoint();
  void refresh_whole();

  TemporaryFolder scratch_;
  OwnModel own_;
  Experiment experiment_;
  NamedTensors draws_;  ///< of policies of one's own; policy_draws.h
  WorkerProgram program_;
  AssembledModel whole_;  ///< for evaluation
  bool whole_is_fresh_ = false;
  std::unique_ptr<NetworkRun> run_;  ///< nullptr: nothing is written
  std::unique_ptr<Crew> crew_;
  std::size_t given_ = 0;  ///< grants, also of crews before this one
  bool failed_ = false;
  bool is_finished_ = false;
  NamedTensors last_weights_;  ///< of the blocks, once they have ended
  std::int64_t turn_ = 0;
  std::int64_t first_batch_ = 0;
  std::int64_t first_turns_end_ = 0;  ///< until then a step waits
  std::map<std::int64_t, std::shared_ptr<Step::Records>> records_;  // by turn
};

/// Contiguous copy of a tensor, which no one else can write. The calling thread
/// makes it alone where it can: the threads with which LibTorch copies spin for
/// the next copy meanwhile, on the cores of the blocks.
at::Tensor own_copy(const at::Tensor& tensor);

}  // namespace sluice
