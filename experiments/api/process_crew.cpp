#include <chrono>
#include <utility>
#include <vector>

#include "experiments/api/linked_crew.h"
#include "experiments/api/network_process.h"
#include "experiments/runs/run_folder.h"
#include "experiments/runs/worker_process.h"
#include "lib/base/own_image.h"
#include "lib/base/peer_missing.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/executor.h"
#include "lib/engines/pulse.h"
#include "lib/engines/worker_loop.h"
#include "transport/links/io_thread.h"
#include "transport/wire/secret.h"

namespace sluice {
namespace {

RendezvousOptions options_of(const Experiment& experiment,
                             const Secret& secret) {
  RendezvousOptions options = rendezvous_options(experiment, secret);
  options.control = control_capacity(experiment.blocks());
  return options;
}

/// How long workers have to end by themselves after one has failed.
constexpr std::chrono::seconds kGrace(5);

class ProcessCrew final : public Crew {
 public:
  ProcessCrew(const CrewParts& parts, const std::string& program,
              const std::string& folder)
      : rendezvous_(io_, with_check(options_of(parts.experiment, secret_))) {
    for (int block = 1; block <= parts.experiment.blocks(); ++block)
      children_.start(block,
                      worker_command(program, folder, block,
                                     rendezvous_.address(), parts.files.resume),
                      secret_.text());
    client_.emplace(meet(), parts.on_record,
                    [this] { children_.kill_after(kGrace); });
  }

  void give(const Grant& grant, const Batch* batch) override {
    client_->give(grant, batch);
  }

  void wait(std::size_t ahead) override {
    try {
      client_->wait(ahead);
    } catch (const LinkError&) {
      // A process that was killed says more than a lost link.
      if (const auto killed = children_.wait(kGrace)) throw *killed;
      throw;
    }
  }

  std::optional<NamedTensors> weights() const override { return std::nullopt; }

 private:
  std::vector<Link> meet() {
    try {
      return rendezvous_.accept_workers();
    } catch (const PeerMissing& missing) {
      throw children_.missing(static_cast<int>(missing.block()),
                              missing.what());
    }
  }

  RendezvousOptions with_check(RendezvousOptions options) {
    options.check = [this] { children_.check_joining(); };
    return options;
  }

  const Secret secret_ = make_secret();
  IoThread io_;
  ChildProcesses children_;
  Rendezvous rendezvous_;
  std::optional<ControlClient> client_;
};

}  // namespace

std::unique_ptr<Crew> make_process_crew(const CrewParts& parts,
                                        const std::string& program,
                                        const std::string& folder) {
  return std::make_unique<ProcessCrew>(parts, program, folder);
}

std::string draws_of_network(const std::string& folder) {
  return folder + "/draws.safetensors";
}

int run_network_process(const Experiment& experiment,
                        const WorkerArguments& arguments) {
  die_with_parent(arguments.parent);
  show_own_name();
  leave_signals_to_launcher();
  const Secret secret = secret_from_launcher();
  prepare_process(experiment);
  const auto capacity = [&](int boundary) {
    return boundary < 1 || boundary >= experiment.blocks()
               ? Capacity{}
               : experiment.capacities[static_cast<std::size_t>(boundary) - 1];
  };
  const int block = arguments.block;
  IoThread io;
  Neighbours links = join(
      io, arguments.address, static_cast<std::uint32_t>(block),
      capacity(block - 1), capacity(block), options_of(experiment, secret));
  // A neighbour that waits is told that each action moves this process.
  Pulse pulse([&io] { io.note_progress(); });
  const auto fed = std::make_shared<FedSource>();
  links.control.receiver = take_batches(std::move(links.control.receiver), fed);
  try {
    run_worker(
        block, experiment.plans, links.control,
        [&] {
          return make_worker(
              experiment, block,
              {std::move(links.below), std::move(links.above)},
              control_sink(*links.control.sender),
              {.checkpoints = checkpoints_of_run(arguments.folder),
               .resume = arguments.resume},
              {.training = fed});
        },
        Executor(pulse));
  } catch (const std::exception&) {
    return 1;  // run_worker() has told the launcher, who says it
  }
  return 0;
}

}  // namespace sluice
