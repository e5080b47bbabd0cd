#include "experiments/config/replica_settings.h"

#include <algorithm>
#include <span>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/plug_in.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostReplicas = 4096;

std::int64_t number_of_replicas(const ConfigNode& written,
                                const Fields& fields) {
  const auto* number = std::get_if<std::int64_t>(&written.value);
  if (number == nullptr || *number < 1 || *number > kMostReplicas)
    fields.reject("count",
                  fmt::format("expected an integer from 1 to {}, or a list of "
                              "one for each block, got {}",
                              kMostReplicas, written.literal()));
  return *number;
}

}  // namespace

void ReplicaSettings::describe_count(Fields& fields) {
  ConfigNode written = {.value = count};
  fields.key("count", written, "integer | list of integers",
             {.text = "number of replicas of the whole network: each trains on "
                      "its share of the batches, in threads or processes of "
                      "its own. Or a list with a number for each block, [4, "
                      "1], each of which divides the largest: a block that has "
                      "fewer does more of a turn's batches in each replica"});
  const auto* list = std::get_if<ConfigNode::Array>(&written.value);
  if (list == nullptr) {
    count = number_of_replicas(written, fields);
    return;
  }
  counts.clear();
  for (const ConfigNode& item : *list)
    counts.push_back(number_of_replicas(item, fields));
  if (counts.empty())
    fields.reject("count", "expected a number for each block, got none");
  count = *std::max_element(counts.begin(), counts.end());
}

std::string ReplicaSettings::count_text() const {
  return counts.empty() ? fmt::format("{}", count)
                        : fmt::format("[{}]", fmt::join(counts, ", "));
}

void ReplicaSettings::describe_policy(Fields& fields) {
  const std::span<const ReplicaPolicyRow> there = replica_policies();
  std::vector<ReplicaPolicyRow> rows(there.begin(), there.end());
  for (const ReplicaPolicyRow& own : own_policies) {
    if (own.make == nullptr)
      throw UserError("replica policy '{}': its row has nothing that makes it",
                      own.name);
    for (const ReplicaPolicyRow& row : there)
      if (own.name == row.name)
        throw UserError(
            "replica policy '{}' is there already; give yours another name",
            own.name);
    rows.push_back(own);
  }
  kind = choose(fields, "policy", std::span<const ReplicaPolicyRow>(rows),
                policy, "replica policy")
             .make(fields);
}

void ReplicaSettings::describe(Fields& fields) {
  describe_count(fields);
  fields.key("start_with", start_with,
             {.text = "replicas that the run starts with, the first ones: the "
                      "places of the others are for replicas that join it "
                      "while it goes on (sluice join); 0: all",
              .unit = "replicas",
              .min = 0,
              .max = kMostReplicas});
  fields.section(
      "since", "written by --resume with another count", [&](Fields& since) {
        since.key("turn", since_turn,
                  {.text = "the first turn with that many replicas",
                   .unit = "turns",
                   .min = 0,
                   .max = 1e12});
        since.key("batches", since_deal,
                  {.text = "batches of batch_size that all turns before it "
                           "had together",
                   .unit = "batches",
                   .min = 0,
                   .max = 1e12});
      });
  describe_policy(fields);
  describe_compressor(fields);
  fields.key(
      "group", group,
      {{"links", GroupKind::links},
       {"mpi", GroupKind::mpi},
       {"nccl", GroupKind::nccl}},
      {.text = "with engine = \"processes\": what sums over the replicas: "
               "links, Sluice's own connections, which add in the order "
               "of the replicas and so give the bits of every engine; "
               "mpi, the collectives of the MPI that mpirun has started "
               "the processes with, whose order is its own; nccl, NCCL's "
               "between GPUs, one for each replica of a block, whose order is "
               "its own too"});
  is_dealing_derived = !fields.has("deal");
  fields.key(
      "deal", dealing,
      {{"shares", Dealing::shares}, {"arrival", Dealing::arrival}},
      {.text = "with schedule = 'free', which batches a replica has: its "
               "share, every count-th, so that the slowest one ends the "
               "run; or the next one whenever it comes, so that its "
               "work follows its speed; by default arrival where "
               "replicas don't wait for the gradients of a turn, and "
               "each batch is an update"});
  fields.key("statistics", kind.mean_statistics,
             {{"mean", true}, {"first", false}},
             {.text = "BatchNorm's statistics that evaluations and checkpoints "
                      "have: the mean of the replicas', or those of the first; "
                      "in training each replica keeps its own"});
  if (group != GroupKind::links && kind.exchange.way != ExchangeWay::sum)
    fields.reject("compress",
                  fmt::format("'{}' sends messages of its own, and group = "
                              "'{}' sums alone: set group = 'links', or "
                              "compress = 'power_sgd'",
                              compress, uses_mpi() ? "mpi" : "nccl"));
}

void ReplicaSettings::describe_compressor(Fields& fields) {
  kind.compressor =
      choose(fields, "compress", compressors(), compress, "compressor")
          .make(fields);
  if (compress == "none") return;
  const bool sums_gradients =
      kind.exchange.what == ExchangedTensors::gradients &&
      kind.exchange.graph.is_all();
  if (!sums_gradients && !kind.gives_movements)
    fields.reject(
        "compress",
        fmt::format("makes sums of gradients or movements smaller, and "
                    "replicas of policy = '{}' sum none: set policy = "
                    "'all_reduce' or 'average', or leave compress out",
                    policy));
  if (!sums_gradients &&
      (kind.compressor.rounds > 1 || kind.compressor.keeps_momentum ||
       kind.compressor.votes))
    fields.reject(
        "compress",
        fmt::format("'{}' is of gradients, and policy = '{}' sums movements "
                    "of weights, once and with their magnitudes: set compress "
                    "= 'top_k', 'threshold', 'qsgd' or 'e3m0', or leave it out",
                    compress, policy));
  if (kind.exchange.shards)
    fields.reject("compress",
                  "gives each replica all of the gradients, and shard = true a "
                  "part: leave one of them out");
  kind.exchange.way = kind.compressor.way;
  kind.exchange.rounds = kind.compressor.rounds;
}

}  // namespace sluice
