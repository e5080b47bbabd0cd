#include "experiments/config/settings.h"

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/added_delays.h"
#include "experiments/config/run_name.h"
#include "lib/base/plug_in.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

Names<Engine> engines() {
  return {{"virtual", Engine::virtual_time},
          {"threads", Engine::threads},
          {"processes", Engine::processes}};
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names = names_of(transports());
  names.emplace_back(kAutoTransport);
  return names;
}

}  // namespace

std::string name_of(Engine engine) {
  return name_of(engine, engines());
}

void CheckpointSettings::describe(Fields& fields) {
  fields.key("every", every,
             {.text = "epochs between checkpoints; 0: only at the end",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  fields.key("every_turns", every_turns,
             {.text = "the same in turns; above 0 it replaces `every`",
              .unit = "turns",
              .min = 0,
              .max = 1e12});
  fields.key("initial", keep.initial,
             {.text = "save the weights before the first turn"});
  fields.key(
      "keep", keep.last,
      {.text = "how many of the last checkpoints are kept; 0: all", .min = 0});
  fields.key("best", keep.best,
             {{"none", std::nullopt},
              {"accuracy", Measure{"accuracy"}},
              {"loss", Measure{"loss"}}},
             {.text = "also keep the checkpoint of the best evaluation, as "
                      "checkpoints/best"});
}

const ScheduleRow& Settings::schedule_row() const {
  return find_row(schedule_rows(), free_schedule ? "free" : pipeline.order,
                  "order");
}

void Settings::describe(Fields& fields) {
  fields.key("name", name,
             {.text = "name of the experiment, and of its folder"});
  check_name(fields, name);
  fields.key("engine", engine, engines(),
             {.text = "what runs the blocks: one thread in virtual time, a "
                      "thread each, or a process each"});
  fields.key("transport", transport,
             {.text = "with engine = \"processes\": what carries messages "
                      "between the processes. \"auto\": shared memory within a "
                      "host, tls between hosts, each link its own",
              .allowed = transport_names()});
  fields.key("seed", seed,
             {.text = "seed of weights, masks and orders", .min = 0});
  auto version = static_cast<std::int64_t>(masks);
  fields.key("masks", version,
             {.text = "how dropout masks are drawn. 2: by Philox4x32-10, each "
                      "element by its index, the same on every device; 1: by "
                      "LibTorch's generator on the CPU, as before this key "
                      "existed",
              .min = 1,
              .max = 2});
  masks = static_cast<Masks>(version);
  fields.key("blocks", cut, "integer | list of ranges",
             {.text = "how the model is cut: 4, or [\"0-3\", \"4-\"]"});
  fields.key(
      "device", device, "text | list of texts",
      {.text = "device of all blocks, or a list with one for each: "
               "\"cpu\", \"cuda:1\", or \"cuda\", which spreads them over "
               "a machine's GPUs: ranks (mpirun, srun, torchrun) by their "
               "number on the host, else the blocks; \"xpu\" likewise"});
  gpu.describe(fields);
  fields.key("cuda_ipc", cuda_ipc,
             {.text = "between blocks on GPUs of a host, over transport = "
                      "\"shared_memory\" or \"auto\": tensors go from GPU to "
                      "GPU where CUDA can do so, not through the host"});
  fields.key("mps", mps,
             {.text = "with engine = \"processes\" on GPUs: start CUDA's "
                      "Multi-Process Service for this run where none runs, so "
                      "that processes compute on one GPU at the same time; it "
                      "ends with the run"});
  fields.key("graphs", graphs,
             {.text = "on GPUs: capture the operations of a block's forward "
                      "and backward once, and start them together as CUDA "
                      "graphs from then on, which takes the host less time "
                      "where nets are small; the same bits. Takes memory for "
                      "each batch in flight, and has not been tried on a real "
                      "GPU"});
  fields.key("checkpoint_layers", checkpoint_layers,
             {.text = "memory for time: of every so many layers a training "
                      "forward keeps the inputs alone, and the backward runs "
                      "them again; the same bits, unless layers compute by "
                      "buffers that they change. 0: it keeps all that the "
                      "backward needs",
              .unit = "layers",
              .min = 0,
              .max = 1e6});
  fields.key("epochs", epochs,
             {.text = "length of the training: batches trained on, of all "
                      "replicas, over those of the split",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  fields.key("turns", turns,
             {.text = "length of the training; above 0 it replaces `epochs`",
              .unit = "batches",
              .min = 0,
              .max = 1e12});
  fields.section("limit", "samples that are used at most, for trials",
                 [&](Fields& part) { limit.describe(part); });
  fields.key(
      "batch_size", batch_size,
      {.text = "size of every batch but an epoch's last, which counts by "
               "its samples in the mean of replicas' gradients",
       .unit = "samples",
       .min = 1});
  fields.key("drop_last", drop_last,
             {.text = "leave an epoch's last batch out when it is not full, as "
                      "where BatchNorm would see one sample"});
  fields.key("evaluate_every", evaluate_every,
             {.text = "epochs between evaluations; 0: only at the end",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  fields.key(
      "log_every", log_every,
      {.text = "turns between training records", .unit = "turns", .min = 1});
  fields.key("drain", length.drain,
             {.text = "apply the batches that are in flight at the end"});
  fields.key("threads", threads,
             {.text = "intra-op threads of each block; 0: the cores that this "
                      "process may use (affinity, cgroup quota, "
                      "OMP_NUM_THREADS) divided by the blocks",
              .min = 0,
              .max = 1024});
  fields.section(
      "accumulate", "one update from the gradients of several turns",
      [&](Fields& part) {
        part.key("batches", accumulate,
                 {.text = "turns per update; gradients of fewer turns, "
                          "at the end of the run, are not applied",
                  .unit = "turns",
                  .min = 1,
                  .max = 1e6});
        part.key("rule", accumulate_mean, {{"sum", false}, {"mean", true}},
                 {.text = "whether their gradients are added or averaged"});
        part.key("by_block", accumulate_by_block,
                 {.text = "with schedule = \"free\": turns per update of each "
                          "block, in the place of `batches`",
                  .unit = "turns",
                  .min = 1,
                  .max = 1e6});
      });
  fields.section("pipeline",
                 "turns cut into micro-batches, which follow each other "
                 "through the blocks",
                 [&](Fields& part) { pipeline.describe(part); });
  fields.section("delay",
                 "gradients that come late though no block delays them: what "
                 "staleness by itself does to training",
                 [&](Fields& part) { describe_delay(part, delay); });
  fields.section("replicas", "copies of the network, on shares of the data",
                 [&](Fields& part) { replicas.describe(part); });
  std::int64_t oldest = -1;
  fields.key("max_staleness", oldest,
             {.text = "the run ends with an error when it would apply a "
                      "gradient that is more stale, of replicas with a server "
                      "or shared weights in steps of all; -1: no limit",
              .unit = "batches",
              .min = -1,
              .max = 1e12});
  if (oldest >= 0) max_staleness = oldest;
  fields.section(
      "probe", "comparison of applied gradients with back-propagation",
      [&](Fields& part) {
        part.key("every", probe_every,
                 {.text = "turns between comparisons with "
                          "back-propagation of the same batch "
                          "through all blocks, with each block's "
                          "weights from before that turn; 0: never. "
                          "With schedule = \"free\" a block's "
                          "weights are those that forwarded the "
                          "turn's batch, and those of all blocks "
                          "never existed at one time",
                  .unit = "turns",
                  .min = 0,
                  .max = 1e12});
        part.key("layers", probe_layers,
                 {.text = "compare each layer of a block by itself, too"});
        if (probe_layers && probe_every == 0)
          part.reject("layers", "nothing is compared: set probe.every too");
      });
  fields.key("precision", precision,
             {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}},
             {.text = "precision of matrix products and convolutions"});
  fields.key("memory_format", memory_format,
             {{"contiguous", MemoryFormat::contiguous},
              {"channels_last", MemoryFormat::channels_last}},
             {.text = "how images lie in memory; channels_last is faster for "
                      "convolutions"});
  fields.key("allocator", caching_allocator,
             {{"caching", true}, {"system", false}},
             {.text = "allocator of tensors on the CPU: Sluice's, which keeps "
                      "freed memory for reuse, or LibTorch's"});
  fields.key("slack", slack,
             {.text = "messages that a boundary can hold beyond the minimum",
              .unit = "messages",
              .min = 0,
              .max = 1024});
  fields.key("barrier", barrier_each_iteration,
             {{"none", false}, {"iteration", true}},
             {.text = "where all blocks wait for each other: around every "
                      "iteration, as published codes of delayed methods do; "
                      "changes times, but no result"});
  fields.key("schedule", free_schedule, {{"lockstep", false}, {"free", true}},
             {.text = "lockstep: each block does its actions in a fixed order, "
                      "so that no result depends on time; free: a block does "
                      "the action that is ready first, so that staleness "
                      "depends on speeds (with engine = \"virtual\" on the "
                      "costs in [virtual]) and is measured; schedule.txt in "
                      "the run's folder records the order, for `sluice "
                      "replay`"});
  fields.key("in_flight", in_flight,
             {.text = "with schedule = \"free\": how many batches a block "
                      "may have forwarded and not yet applied; 0: one more "
                      "than its delay in lockstep",
              .unit = "batches",
              .min = 0,
              .max = 1024});
  fields.key(
      "priority", priority,
      {{"backward", Priority::backward}, {"arrival", Priority::arrival}},
      {.text = "with schedule = \"free\": which of the actions that are ready "
               "a block does first: a backward before a forward, or what "
               "has waited longest, by the time at which its messages came "
               "(AMP); block 1's batches come when they may be in flight"});
  fields.section("trace",
                 "trace.json in the run's folder: when each block did what",
                 [&](Fields& part) {
                   part.key("turns", traced.count,
                            {.text = "number of turns that it shows; 0: none",
                             .unit = "turns",
                             .min = 0,
                             .max = 1e6});
                   part.key("first", traced.first,
                            {.text = "the first turn that it shows",
                             .unit = "turns",
                             .min = 0,
                             .max = 1e12});
                 });
  fields.key("hashes", hashes,
             {.text = "after each update write hashes of all gradients and "
                      "tensors of the block into metrics.jsonl; `sluice "
                      "verify` compares these"});
  fields.key("gradient_norms", gradient_norms,
             {.text = "training records have the figure gradient_norm: the "
                      "2-norm of the gradients that the block's update "
                      "applies, heads' included, before they are clipped and "
                      "corrected; not where a centre of replicas applies them, "
                      "nor with replicas.shard, clip.at = 'replica' or the "
                      "gradients of neighbours"});
  fields.key(
      "timeout", timeout_seconds,
      {.text =
           "time after which a worker that makes no progress, and waits for "
           "no other, counts as hanging and is given up: must be longer than "
           "any single action of a block, such as the forward of a batch or "
           "a checkpoint",
       .unit = "s",
       .min = 1,
       .max = 1e6});
  fields.key(
      "reconnect", reconnect_seconds,
      {.text =
           "with engine = \"processes\" over tcp or tls, with transport = "
           "\"auto\" between hosts: time in which a broken "
           "connection may be restored before its worker is given up; no "
           "message is lost or arrives twice. A killed worker, too, is noticed "
           "only after this time. 0: a broken connection is a failure",
       .unit = "s",
       .min = 0,
       .max = 1e5});
  fields.key(
      "on_failure", restart_on_failure, {{"stop", false}, {"restart", true}},
      {.text = "with engine = \"processes\", when a worker dies, hangs or "
               "can't be reached: end the run with an error, or start all "
               "workers anew from the last checkpoint (from the beginning, "
               "when there is none), with the bits of an undisturbed run, or "
               "with schedule = \"free\" those of its record"});
  fields.key("restarts", restarts,
             {.text = "with on_failure = \"restart\": largest number of "
                      "restarts without a new checkpoint between them",
              .min = 1,
              .max = 1e6});
  fields.key(
      "equal_builds", equal_builds,
      {.text = "for ranks (mpirun, srun, torchrun): refuse a rank whose "
               "LibTorch is another build than that of rank 0, or whose "
               "processor has other vector instructions, which may change the "
               "last bits of results; if false, both ranks print the "
               "difference and run.json records it"});
  fields.key("on_nan", stop_on_nan, {{"stop", true}, {"continue", false}},
             {.text = "when a loss that is logged, or that of an evaluation, "
                      "is NaN or infinite, or a checkpoint has such weights: "
                      "end the run as diverged (exit status 5), or continue"});
  fields.key(
      "forecast", forecast,
      {.text = "before the first turn, let each block do some trial turns "
               "alone, as `sluice plan --calibrate` does, and record the "
               "memory that it will need, beside what it then uses"});
  fields.key(
      "logger", loggers,
      {.text = "experiment trackers that are told of the run while it goes on, "
               "each by a process of its own (python -m sluice.track of the "
               "package in python/). TensorBoard's file is always written",
       .allowed = {"wandb", "mlflow", "tensorboard"}});
  fields.key(
      "initial_weights", initial_weights,
      {.text = "checkpoint, safetensors file, or folder or index of several, "
               "with the weights that the run starts from; tensors are named "
               "as in Sluice's checkpoints, or for gpt, llama, resnet18, 34 "
               "and 50 and vit as in published files"});
  fields.section("fine_tune",
                 "training of some of the model's weights, or of adapters",
                 [&](Fields& part) { fine_tuning.describe(part); });
  fields.section("checkpoint", "when to save, beside the end of the run",
                 [&](Fields& part) { checkpoint.describe(part); });
  fields.section(
      "early_stop", "end the run when evaluations get no better",
      [&](Fields& part) {
        EarlyStopOptions& stop = length.early_stop;
        part.key(
            "patience", stop.patience,
            {.text = "evaluations without progress after which the run ends; "
                     "0: never",
             .min = 0});
        part.key("metric", stop.measure,
                 {{"accuracy", Measure{"accuracy"}}, {"loss", Measure{"loss"}}},
                 {.text = "figure whose progress counts"});
        part.key(
            "min_delta", stop.min_delta,
            {.text = "smallest improvement that counts as progress", .min = 0});
      });
  fields.section(
      "virtual",
      "durations for the clock of engine = \"virtual\"; in lockstep no "
      "result depends on them. By default everything takes no time",
      [&](Fields& part) { virtual_time.describe(part); });
}

}  // namespace sluice
