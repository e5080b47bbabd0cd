#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Two blocks over TLS, small.
inline constexpr const char* kRankConfig =
    "engine = 'processes'\ntransport = 'tls'\nblocks = 2\nturns = 12\n"
    "batch_size = 24\nthreads = 1\nevaluate_every = 0\n"
    "model = {hidden = [12, 12, 12], dropout = 0.2}\n"
    "boundary = {policy = 'delayed_gradient'}\n"
    "optimizer = {name = 'adam', lr = 0.01}\n"
    "data = {train = 240, test = 40}\n";

/// A key that one rank has another value of.
struct RankKey {
  std::string override_of_one = {};
  std::string told = {};               ///< in the reason
  std::vector<std::string> both = {};  ///< overrides of all ranks
  /// In the reason, where one of the ranks is refused by its own config, before
  /// they compare.
  std::string told_alone = {};
};

inline std::vector<RankKey> rank_keys() {
  const std::string local = "boundary={policy=\"local_loss\"}";
  return {
      {"seed=9", "seed is 9 at rank 1, but 1 at rank 0"},
      {"optimizer.lr=1e-5",
       "optimizer.1.lr is 1e-05 at rank 1, but 0.01 at rank 0"},
      {"batch_size=12", "batch_size is 12 at rank 1, but 24 at rank 0"},
      {"blocks=[\"0-0\",\"1-\"]", "blocks is [", {"blocks=[\"0-1\",\"2-\"]"}},
      {"model.hidden=[12,11,12]", "model.hidden is [12, 11, 12]"},
      {"model.dropout=0.1", "model.dropout is 0.1"},
      {"masks=1", "masks is 1"},
      {"boundary.policy=backprop", "boundary.1.policy is \"backprop\""},
      {"boundary.head={name=\"predsim\"}", "boundary.1.head", {local}},
      {"boundary.codec=fp16", "boundary.1.codec is \"fp16\""},
      {"data.train=480", "data.train is 480"},
      {"data.seed=3", "data.seed is 3"},
      {"turns=16", "turns is 16"},
      {"epochs=7", "epochs is 7"},
      {"accumulate.batches=2", "accumulate.batches is 2"},
      {"precision=bf16", "precision is \"bf16\""},
      {"schedule=free", "schedule is \"free\""},
      {"optimizer.clip={norm=1.0}", "optimizer.1.clip.norm is 1.0"},
      {"optimizer.schedule={name=\"cosine\"}", "optimizer.1.schedule"},
      {"optimizer.2.lr=0.02", "optimizer.2.lr is 0.02"},
      {"timetable=[{turn=8,boundary={policy=\"backprop\"}}]", "timetable"},
      {"early_stop.patience=2", "early_stop.patience is 2"},
      {"drop_last=true", "drop_last is true"},
      {"drain=false", "drain is false"},
      {"evaluate_every=0.5", "evaluate_every is 0.5"},
      {"max_staleness=5", "max_staleness is 5"},
      {"memory_format=contiguous", "memory_format is \"contiguous\""},
      {"pipeline.micro_batches=2",
       "pipeline.micro_batches is 2",
       {"boundary.policy=backprop"}},
      {"pipeline.order=gpipe",
       "pipeline.order is \"gpipe\"",
       {"boundary.policy=backprop", "pipeline.micro_batches=2"}},
      {"pipeline.executors=2",
       "pipeline.executors is 2",
       {"boundary.policy=backprop", "pipeline.micro_batches=2",
        "pipeline.order=interleaved", "pipeline.executors=1"},
       "a rank has one block, and order = 'interleaved'"},
      {"slack=3", "slack is 3"},
      {"reconnect=2", "reconnect is 2"},
  };
}

inline std::vector<const char*> free_rank_keys() {
  return {"name=other",         "log_every=4",
          "trace.turns=0",      "checkpoint.every_turns=7",
          "threads=2",          "timeout=99",
          "hashes=true",        "allocator=system",
          "on_nan=continue",    "data.prefetch=0",
          "equal_builds=true",  "checkpoint.best=loss",
          "gradient_norms=true"};
}

}  // namespace sluice
