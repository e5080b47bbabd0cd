#include "experiments/config/virtual_time.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "experiments/config/settings.h"
#include "lib/base/by_block.h"
#include "lib/base/messages/message.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {
namespace {

/// "2x1.5", "2 x1.5": block 2 takes 1.5 times as long; "2.3x1.5": of replica 3.
/// Of all replicas it has the number 0.
std::optional<SlowReplica> slow_replica(std::string text) {
  std::erase(text, ' ');
  SlowReplica slow{.replica = 0};
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, slow.block);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '.') {
    read = std::from_chars(read.ptr + 1, end, slow.replica);
    if (slow.replica < 1) return std::nullopt;
  }
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != 'x')
    return std::nullopt;
  const auto factor = std::from_chars(read.ptr + 1, end, slow.slowness);
  if (factor.ec != std::errc() || factor.ptr != end || slow.slowness <= 0)
    return std::nullopt;
  return slow;
}

void set_slowness(const std::vector<std::string>& slow,
                  const ReplicaSettings& replicas, const Fields& top,
                  Costs& costs) {
  const auto blocks = std::ssize(costs.blocks);
  for (const std::string& text : slow) {
    const auto found = slow_replica(text);
    if (!found || found->block < 1 || found->block > blocks)
      top.reject("virtual",
                 fmt::format("slow: expected a block from 1 to {} and a factor "
                             "above 0, as in \"2x1.5\", got \"{}\"",
                             blocks, text));
    if (found->replica > 0 &&
        (replicas.count == 1 ||
         found->replica > replicas.of_block(found->block)))
      top.reject("virtual",
                 fmt::format("slow: \"{}\" is of replica {}, and "
                             "replicas.count = {}: leave it out, or name one "
                             "that there is",
                             text, found->replica, replicas.count_text()));
    if (found->replica > 0)
      costs.slow_replicas.push_back(*found);
    else
      by_block(costs.blocks, found->block).slowness = found->slowness;
  }
}

/// Key of an op's cost: "learn_input".
std::string key_of(const OpRow& row) {
  std::string key(row.name);
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

/// How tensors at a boundary are written: with the state of training, or
/// without.
struct Writing {
  Precision precision = Precision::fp32;
  const Codec* codec = nullptr;
  bool in_training = true;
};

/// Bytes of h_k for so many samples, as a message carries it: of a codec that
/// remembers samples, one that comes later than the first of each.
double packed_bytes(const SampleShape& shape, std::int64_t samples,
                    const Writing& how) {
  std::vector<std::int64_t> sizes = {samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const auto type =
      how.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  const Tensors features = {at::zeros(sizes, type)};
  const std::unique_ptr<CodecEnd> end =
      how.codec != nullptr && how.in_training
          ? how.codec->sender({.features = shape, .samples = samples})
          : nullptr;
  const Coding coding{how.codec, end.get(), 0, at::arange(samples)};
  Message first;
  pack(features, "h", coding, first);
  Message message;
  pack(features, "h", coding, message);
  return static_cast<double>(payload_bytes(message));
}

/// Bytes of many samples, from those of one and what another one adds.
double bytes_of_batch(const SampleShape& shape, std::int64_t samples,
                      const Writing& how) {
  const double one = packed_bytes(shape, 1, how);
  return one +
         static_cast<double>(samples - 1) * (packed_bytes(shape, 2, how) - one);
}

}  // namespace

double bytes_of_features(const Model& model, const LayerRange& range,
                         std::int64_t samples, Precision precision) {
  const SampleShape& shape =
      model.layers.at(static_cast<std::size_t>(range.last)).output;
  return bytes_of_batch(shape, samples, {.precision = precision});
}

namespace {

/// Bytes of a sample's label: shares and numbers are float32, classes int64.
double label_bytes(const SampleSpec& sample) {
  if (sample.targets != Targets::classes)
    return 4 * static_cast<double>(sample.classes);
  return 8 * static_cast<double>(sample.is_text ? sample.shape[0] : 1);
}

MessageBytes bytes_above(const Model& model, const LayerRange& range,
                         const BoundaryCodecs& codecs, std::int64_t batch_size,
                         std::int64_t micro_batches, Precision precision) {
  const SampleShape& shape =
      model.layers[static_cast<std::size_t>(range.last)].output;
  const auto samples = static_cast<double>(batch_size);
  const double labels = samples * label_bytes(model.sample);
  const auto bytes = [&](const Codec* codec, bool in_training) {
    const Codec* counted = codec != nullptr ? &codec->for_plans() : nullptr;
    return bytes_of_batch(shape, batch_size, {precision, counted, in_training});
  };
  return {.activation = bytes(codecs.up.get(), true) + labels,
          .gradient = bytes(codecs.down.get(), true),
          .evaluation = (bytes(codecs.of_evaluations(), false) + labels) *
                        static_cast<double>(micro_batches),
          .norm = 8};
}

}  // namespace

void VirtualOptions::describe(Fields& fields) {
  const auto seconds = [&](std::string_view name, std::vector<double>& value,
                           std::string_view text) {
    fields.key(name, value, {.text = text, .unit = "s", .min = 0, .max = 1e6});
  };
  bool given = false;
  for (const OpRow& row : op_rows()) {
    if (row.cost_text.empty()) continue;
    seconds(key_of(row), this->seconds[row.op], row.cost_text);
    given = given || !this->seconds[row.op].empty();
  }
  seconds("head", head, "extra time per backward for an auxiliary head");
  fields.key("latency", latency,
             {.text = "time that a message between blocks travels",
              .unit = "s",
              .min = 0,
              .max = 1e6});
  fields.key("bandwidth", bandwidth,
             {.text = "bandwidth of each direction of a boundary, which "
                      "carries one message after the other; 0: unlimited",
              .unit = "bytes/s",
              .min = 0});
  fields.key("exchange_latency", exchange.latency,
             {.text = "time that a message between replicas travels; one of N "
                      "sends 2 (N - 1) of them, one after the other, per sum",
              .unit = "s",
              .min = 0,
              .max = 1e6});
  fields.key("exchange_bandwidth", exchange.bandwidth,
             {.text = "bandwidth between replicas; 0: unlimited",
              .unit = "bytes/s",
              .min = 0});
  fields.key("jitter", jitter,
             {.text = "part of its time by which each action and message is "
                      "longer or shorter, at random: 0.1 is ten percent",
              .min = 0,
              .max = 0.99});
  fields.key("service", service,
             {{"fixed", Service::fixed}, {"exponential", Service::exponential}},
             {.text = "how long actions take: fixed, as long as these keys "
                      "say; exponential, so long on average and each by "
                      "chance, as in models of queues"});
  fields.key("seed", seed,
             {.text = "seed of the jitter and of the service", .min = 0});
  fields.key("slow", slow,
             {.text = "slow blocks: \"2x1.5\" makes every action of block 2 "
                      "take 1.5 times as long, \"2.3x1.5\" those of its "
                      "replica 3"});
  fields.key("calibrate", calibrate,
             {.text = "measure the times of the actions in a few turns on "
                      "this machine, before the run"});
  if (calibrate && (given || !head.empty()))
    fields.reject("calibrate",
                  "measures the values of forward, backward and its halves, "
                  "update, learn, learn_input and head; leave those out");
}

Costs costs_of(const VirtualOptions& options, const Model& model,
               const Partition& ranges, const Codecs& codecs,
               std::int64_t batch_size, std::int64_t micro_batches,
               Precision precision, const ReplicaSettings& replicas,
               const Fields& top) {
  Costs costs{.blocks = std::vector<BlockCosts>(ranges.size()),
              .latency = options.latency,
              .bandwidth = options.bandwidth,
              .jitter = options.jitter,
              .service = options.service,
              .seed = static_cast<std::uint64_t>(options.seed),
              .exchange_link = options.exchange};
  const auto spread = [&](std::string_view name,
                          const std::vector<double>& values, auto member) {
    if (values.size() > 1 && values.size() != ranges.size())
      top.reject(
          "virtual",
          fmt::format("{}: {} numbers for {} blocks; give one, or one for "
                      "each block",
                      name, values.size(), ranges.size()));
    for (std::size_t k = 0; k < ranges.size() && !values.empty(); ++k)
      member(costs.blocks[k]) = values[values.size() == 1 ? 0 : k];
  };
  for (const OpRow& row : op_rows())
    spread(key_of(row), options.seconds[row.op],
           [&](BlockCosts& block) -> double& { return block.seconds[row.op]; });
  spread("head", options.head,
         [](BlockCosts& block) -> double& { return block.head; });
  set_slowness(options.slow, replicas, top, costs);
  for (std::size_t k = 0; k + 1 < ranges.size(); ++k)
    costs.bytes.push_back(bytes_above(model, ranges[k], codecs.at(k),
                                      batch_size, micro_batches, precision));
  return costs;
}

}  // namespace sluice
