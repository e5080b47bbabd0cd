#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "experiments/api/linked_crew.h"
#include "lib/base/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/engines/worker_loop.h"

namespace sluice {
namespace {

void run_thread(int block, const Plans& plans, std::int64_t threads,
                Link control, std::unique_ptr<Worker> worker) {
  at::set_num_threads(static_cast<int>(threads));
  try {
    run_worker(block, plans, control, [&] { return std::move(worker); });
  } catch (const std::exception&) {
    // run_worker() has told the other end, who throws it.
  }
}

class ThreadCrew final : public Crew {
 public:
  explicit ThreadCrew(const CrewParts& parts) {
    const Experiment& experiment = parts.experiment;
    const Capacity capacity = control_capacity(experiment.blocks());
    std::vector<Ends> ends = memory_ends(experiment);
    std::vector<Link> links;
    // Here and one by one: the factories of layers are the caller's.
    for (int block = 1; block <= experiment.blocks(); ++block) {
      auto [control, server] = memory_link(capacity.up, capacity.down,
                                           kControlDeadline, "control link");
      links.push_back(std::move(server));
      const auto fed = std::make_shared<FedSource>();
      control.receiver = take_batches(std::move(control.receiver), fed);
      auto worker = make_worker(
          experiment, block,
          std::move(ends[static_cast<std::size_t>(block) - 1]),
          control_sink(*control.sender), parts.files, {.training = fed});
      workers_.push_back(worker.get());
      running_.emplace_back(run_thread, block, std::cref(experiment.plans),
                            experiment.threads, std::move(control),
                            std::move(worker));
    }
    client_.emplace(std::move(links), parts.on_record, nullptr);
  }

  void give(const Grant& grant, const Batch* batch) override {
    client_->give(grant, batch);
  }
  void wait(std::size_t ahead) override { client_->wait(ahead); }

  std::optional<NamedTensors> weights() const override {
    NamedTensors all;
    for (const Worker* worker : workers_)
      for (auto& named : worker->weights()) all.push_back(std::move(named));
    return all;
  }

 private:
  std::vector<Worker*> workers_;  // alive until their links end
  std::vector<std::jthread> running_;
  std::optional<ControlClient> client_;  // goes first, which ends the threads
};

}  // namespace

std::unique_ptr<Crew> make_thread_crew(const CrewParts& parts) {
  return std::make_unique<ThreadCrew>(parts);
}

}  // namespace sluice
