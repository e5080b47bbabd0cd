#include "experiments/config/settings.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/run_name.h"
#include "lib/weights/weight_view.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

Names<Engine> engines() {
  return {{"virtual", Engine::virtual_time},
          {"threads", Engine::threads},
          {"processes", Engine::processes}};
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
  fields.key("keep", keep.last,
             {.text = "number of the last checkpoints that are kept; 0: all",
              .min = 0});
  fields.key("best", keep.best,
             {{"none", std::nullopt},
              {"accuracy", Measure{"accuracy"}},
              {"loss", Measure{"loss"}}},
             {.text = "also keep the checkpoint of the best evaluation, as "
                      "checkpoints/best"});
}

namespace {

Names<WeightsAtBackward> window_views() {
  Names<WeightsAtBackward> names = {{"latest", {}}};
  for (const WeightViewRow& row : weight_views())
    if (row.make.by_window)
      names.push_back({std::string(row.name), weights_at_backward(row.name)});
  return names;
}

std::string summaries_of_windows() {
  std::string text;
  for (const WeightViewRow& row : weight_views())
    if (row.make.by_window)
      text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", row.name,
                          row.summary);
  return text;
}

/// The names of the schedules of blocks in lockstep.
std::vector<std::string> orders() {
  std::vector<std::string> names = names_of(schedule_rows());
  std::erase(names, "free");
  return names;
}

}  // namespace

const ScheduleRow& Settings::schedule_row() const {
  return find_row(schedule_rows(), free_schedule ? "free" : pipeline.order,
                  "order");
}

void PipelineSettings::describe(Fields& fields) {
  fields.key("order", order,
             {.text = "order in which the blocks do them; changes no number",
              .allowed = orders()});
  fields.key("micro_batches", micro_batches,
             {.text = "number of batches of a turn, each with its share of the "
                      "loss; divides "
                      "batch_size. 1 where a boundary delays. Synthesizers "
                      "and input models learn from each",
              .unit = "batches",
              .min = 1,
              .max = 256});
  fields.key("flush", flush,
             {.text = "whether the pipe is emptied after each turn; if not, "
                      "order = '1f1b' goes on with the next turn at once, "
                      "which changes no number"});
  fields.key("weights", weights, window_views(),
             {.text = "weights that the batches of an update see: latest, of "
                      "the update before; " +
                      summaries_of_windows()});
  fields.key("recompute", recompute,
             {.text = "keep only the input of a batch, and build the graph "
                      "of its backward anew: less memory for a second "
                      "forward. Changes no number"});
  fields.key("executors", executors,
             {.text = "threads or processes that the blocks are dealt out "
                      "to, with order = 'interleaved': block k goes where "
                      "k - executors went. 0: one for each block",
              .min = 0,
              .max = 4096});
  if (executors > 0 && order != "interleaved")
    fields.reject("executors",
                  fmt::format("order = '{}' has one for each block: leave "
                              "it out, or set order = 'interleaved'",
                              order));
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
                      "between the processes",
              .allowed = names_of(transports())});
  fields.key("seed", seed,
             {.text = "seed of weights, masks and orders", .min = 0});
  auto version = static_cast<std::int64_t>(masks);
  fields.key("masks", version,
             {.text = "how dropouts draw; 2: by Philox4x32-10, each element by "
                      "its index, the same on every device; 1: by LibTorch's "
                      "generator on the CPU, as runs without this key did",
              .min = 1,
              .max = 2});
  masks = static_cast<Masks>(version);
  fields.key("blocks", cut, "integer | list of ranges",
             {.text = "how the model is cut: 4, or [\"0-3\", \"4-\"]"});
  fields.key("device", device, "text | list of texts",
             {.text = "where the blocks compute, all of them or a list with "
                      "one for each: \"cpu\", \"cuda:1\", or \"cuda\", which "
                      "deals them out over a machine's GPUs"});
  fields.key("deterministic", deterministic,
             {.text = "on GPUs: only algorithms that give the same bits each "
                      "time; an operation that has none fails"});
  fields.key("cuda_ipc", cuda_ipc,
             {.text = "between blocks on GPUs, over transport = "
                      "\"shared_memory\": tensors go from GPU to GPU where "
                      "CUDA can do so, not through the host"});
  fields.key(
      "epochs", epochs,
      {.text = "how long it trains", .unit = "epochs", .min = 0, .max = 1e6});
  fields.key("turns", turns,
             {.text = "how long it trains; above 0 it replaces `epochs`",
              .unit = "batches",
              .min = 0,
              .max = 1e12});
  fields.key("batch_size", batch_size,
             {.text = "size of every batch but an epoch's last",
              .unit = "samples",
              .min = 1});
  fields.key("drop_last", drop_last,
             {.text = "leave an epoch's last batch out when it is not full"});
  fields.key("evaluate_every", evaluate_every,
             {.text = "epochs between evaluations; 0: only at the end",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  fields.key(
      "log_every", log_every,
      {.text = "turns between training records", .unit = "turns", .min = 1});
  fields.key("drain", length.drain,
             {.text = "apply what is in flight at the end"});
  fields.key("threads", threads,
             {.text = "intra-op threads of each block; 0: the cores divided by "
                      "the blocks",
              .min = 0,
              .max = 1024});
  fields.section(
      "accumulate", "gradients over several turns", [&](Fields& part) {
        part.key("batches", accumulate,
                 {.text = "turns for one update; an incomplete "
                          "window at the end is not applied",
                  .unit = "turns",
                  .min = 1,
                  .max = 1e6});
        part.key("rule", accumulate_mean, {{"sum", false}, {"mean", true}},
                 {.text = "whether their gradients are added or averaged"});
      });
  fields.section("pipeline", "turns cut into batches that follow each other",
                 [&](Fields& part) { pipeline.describe(part); });
  std::int64_t oldest = -1;
  fields.key("max_staleness", oldest,
             {.text = "a gradient that is older ends the run with an error; "
                      "-1: any age",
              .unit = "batches",
              .min = -1,
              .max = 1e12});
  if (oldest >= 0) max_staleness = oldest;
  fields.section("probe", "how true the gradients are that blocks apply",
                 [&](Fields& part) {
                   part.key("every", probe_every,
                            {.text = "compare them with back-propagation of "
                                     "the same batch through all blocks, each "
                                     "with its weights before that turn: with "
                                     "schedule = \"free\" those that forwarded "
                                     "the turn's batch, which were never there "
                                     "at one time; 0: never",
                             .unit = "turns",
                             .min = 0,
                             .max = 1e12});
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
             {.text = "allocator of tensors on the CPU: ours, which keeps "
                      "freed memory, or LibTorch's"});
  fields.key(
      "slack", slack,
      {.text = "messages that a boundary holds beyond the least it needs",
       .unit = "messages",
       .min = 0,
       .max = 1024});
  fields.key("barrier", barrier_each_iteration,
             {{"none", false}, {"iteration", true}},
             {.text = "where all blocks wait for each other: around every "
                      "iteration, as published codes of delayed methods do; "
                      "changes speeds, but no number"});
  fields.key("schedule", free_schedule, {{"lockstep", false}, {"free", true}},
             {.text = "lockstep: each block does its actions in a fixed order, "
                      "so that no number depends on time; free: it does what "
                      "is ready first, staleness follows from speeds (in "
                      "engine = \"virtual\" from the costs in [virtual]) and "
                      "is measured, and schedule.txt in the run's folder "
                      "records what was chosen, for `sluice replay`"});
  fields.key("in_flight", in_flight,
             {.text = "with schedule = \"free\": how many batches a block "
                      "forwards before it must apply the oldest; 0: one more "
                      "than the delay that it has in lockstep",
              .unit = "batches",
              .min = 0,
              .max = 1024});
  fields.section("trace", "trace.json in the run's folder: who did what when",
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
             {.text = "after each update write a hash of every gradient and "
                      "tensor of the block into metrics.jsonl; what `sluice "
                      "verify` compares"});
  fields.key(
      "timeout", timeout_seconds,
      {.text =
           "a worker that makes no progress for so long, and waits for no "
           "other, hangs and is given up: must be longer than any single "
           "action of a block, such as the forward of a batch or a checkpoint",
       .unit = "s",
       .min = 1,
       .max = 1e6});
  fields.key(
      "reconnect", reconnect_seconds,
      {.text =
           "with engine = \"processes\" over tcp or tls: how long a connection "
           "that broke may take to come back before its worker is given up; no "
           "message is lost or comes twice. A killed worker, too, is noticed "
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
             {.text = "with on_failure = \"restart\": the most restarts in a "
                      "row without a new checkpoint between them",
              .min = 1,
              .max = 1e6});
  fields.key(
      "equal_builds", equal_builds,
      {.text = "for ranks (mpirun, srun, torchrun): refuse a rank whose "
               "LibTorch is another build than that of rank 0, or whose "
               "processor has other vector instructions, which may move the "
               "last bits; else both ranks say so, and run.json does"});
  fields.key("on_nan", stop_on_nan, {{"stop", true}, {"continue", false}},
             {.text = "when a loss that is logged, or that of an evaluation, "
                      "is NaN or infinite: end the run as diverged (exit "
                      "status 5), or train on"});
  fields.key(
      "forecast", forecast,
      {.text = "before the first turn let each block rehearse some turns "
               "alone, as `sluice plan --calibrate` does, and record "
               "what memory it will need, to be compared with what it "
               "then needs"});
  fields.key(
      "initial_weights", initial_weights,
      {.text = "safetensors file or checkpoint that the run starts with; "
               "tensors are named as in our checkpoints"});
  fields.section("checkpoint", "what is saved; the end always is",
                 [&](Fields& part) { checkpoint.describe(part); });
  fields.section(
      "early_stop", "end when evaluations get no better", [&](Fields& part) {
        EarlyStopOptions& stop = length.early_stop;
        part.key(
            "patience", stop.patience,
            {.text = "evaluations without progress after which the run ends; "
                     "0: never",
             .min = 0});
        part.key("metric", stop.measure,
                 {{"accuracy", Measure{"accuracy"}}, {"loss", Measure{"loss"}}},
                 {.text = "figure whose progress counts"});
        part.key("min_delta", stop.min_delta,
                 {.text = "the least that counts as progress", .min = 0});
      });
  fields.section("virtual",
                 "what the clock of engine = \"virtual\" knows; no number of a "
                 "run depends on it, and without costs nothing takes time",
                 [&](Fields& part) { virtual_time.describe(part); });
}

}  // namespace sluice
