#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "experiments/api/crew.h"
#include "experiments/api/fed_source.h"
#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/schedules/simulation.h"

namespace sluice {
namespace {

class RecordTo final : public Sink {
 public:
  explicit RecordTo(std::function<void(const Record&)> to)
      : to_(std::move(to)) {}
  void write(const Record& record) override { to_(record); }

 private:
  std::function<void(const Record&)> to_;
};

/// The caller's intra-op threads are the network's while it works.
class ThreadsKept {
 public:
  explicit ThreadsKept(std::int64_t threads) : before_(at::get_num_threads()) {
    at::set_num_threads(static_cast<int>(threads));
  }
  ~ThreadsKept() { at::set_num_threads(before_); }
  ThreadsKept(const ThreadsKept&) = delete;
  ThreadsKept& operator=(const ThreadsKept&) = delete;

 private:
  int before_;
};

class VirtualCrew final : public Crew {
 public:
  explicit VirtualCrew(const CrewParts& parts) : experiment_(parts.experiment) {
    const auto sink = std::make_shared<RecordTo>(parts.on_record);
    std::vector<Ends> ends = memory_ends(experiment_);
    for (int block = 1; block <= experiment_.blocks(); ++block)
      workers_.push_back(
          make_worker(experiment_, block,
                      std::move(ends[static_cast<std::size_t>(block) - 1]),
                      sink, parts.files, {.training = fed_}));
  }

  void give(const Grant& grant, const Batch* batch) override {
    const c10::AutoGradMode gradients(true);
    const ThreadsKept threads(experiment_.threads);
    if (batch) fed_->put(*batch);
    if (!simulation_ || first_batch_ != grant.first_batch) start(grant);
    for (int block = 1; block <= experiment_.blocks(); ++block)
      simulation_->extend(block, actions_of(experiment_.plans, block, grant));
    while (const std::optional<TimedAction> timed = simulation_->next())
      execute(*timed);
    SLUICE_CHECK(simulation_->finished(), "{}", simulation_->stuck());
  }

  void wait(std::size_t) override {}

  std::optional<NamedTensors> weights() const override {
    NamedTensors all;
    for (const auto& worker : workers_)
      for (auto& named : worker->weights()) all.push_back(std::move(named));
    return all;
  }

 private:
  void start(const Grant& first) {
    simulation_.emplace(experiment_.plans, Costs{}, experiment_.capacities);
    simulation_->begin_at(first.phase, first.first_turn, first.first_batch);
    first_batch_ = first.first_batch;
    for (const auto& worker : workers_) worker->start(first);
  }

  void execute(const TimedAction& timed) {
    try {
      workers_[static_cast<std::size_t>(timed.block) - 1]->execute(
          timed.action);
    } catch (const std::exception& error) {
      throw UserError("block {}: {}", timed.block, text_of(error));
    }
  }

  const Experiment& experiment_;
  std::shared_ptr<FedSource> fed_ = std::make_shared<FedSource>();
  std::vector<std::unique_ptr<Worker>> workers_;
  std::optional<Simulation> simulation_;
  std::int64_t first_batch_ = 0;
};

}  // namespace

std::unique_ptr<Crew> make_virtual_crew(const CrewParts& parts) {
  return std::make_unique<VirtualCrew>(parts);
}

}  // namespace sluice
