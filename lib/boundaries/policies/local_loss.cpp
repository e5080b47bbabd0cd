// Local learning: the signal is the gradient of an auxiliary head's loss at
// h_k. Greedy, nothing comes from above: Nøkland & Eidnes (ICML 2019,
// arXiv:1901.06656) with the head `predsim`; Belilovsky et al. (ICML 2020,
// arXiv:1901.08164). With a reach, the gradients of the heads of so many blocks
// above come too: their sum (overlapping, Laskin et al. 2020, arXiv:2012.03837)
// or only that of the furthest (interlocking, Gomez et al., JMLR 2022,
// arXiv:2010.04116). The head itself trains on its own loss alone.
// DGL's asynchronous form (there, section 4): a replay buffer at the boundary.
#include <optional>
#include <utility>

#include "lib/base/plug_in.h"
#include "lib/base/random.h"
#include "lib/boundaries/policies/first_layer.h"
#include "lib/boundaries/policies/module_tensors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "lib/tensors/gradients.h"

namespace sluice {
namespace {

class LocalLoss final : public Lower {
 public:
  LocalLoss(std::shared_ptr<Head> head, std::int64_t layer,
            const Traits& traits)
      : head_(std::move(head)),
        attached_(*head_, "heads", layer),
        traits_(traits) {
    const Needs needs = head_->needs();
    if (needs.raw_input) traits_.lower.attachments = {kRawInput};
    if (!needs.first_layer_above) return;
    if (!traits_.cut)
      throw UserError(
          "a head that follows the layer above its boundary goes with reach = "
          "0 only");
    traits_.from_above = true;
    traits_.lower.learns = true;
    traits_.upper = UpperEnd::answers;
  }

  Traits traits() const override { return traits_; }

  Signal signal(const BatchContext& context) override {
    const HeadResult result =
        head_->forward(context.features, {.labels = context.labels,
                                          .raw_input = raw_input_of(context),
                                          .pass = context.pass});
    Tensors targets = context.features;
    for (const auto& [name, parameter] : attached_.parameters)
      targets.push_back(parameter);
    const Tensors gradients =
        gradients_at(targets, {by_share(result.loss, context)});
    const auto split = gradients.begin() + std::ssize(context.features);
    Signal signal;
    signal.gradients.assign(gradients.begin(), split);
    for (std::size_t i = 0; !traits_.cut && i < context.from_above.size(); ++i)
      signal.gradients[i] = signal.gradients[i] + context.from_above[i];
    signal.parameter_gradients.assign(split, gradients.end());
    signal.loss = result.loss.detach();
    if (result.logits.defined()) signal.logits = result.logits.detach();
    return signal;
  }

  bool depends_on_batch_alone() const override {
    return !traits_.lower.learns && !head_->needs().host;
  }

  Lesson learn(const BatchContext& context) override {
    head_->follow(context.answer, context.share);
    return {};
  }

  NamedTensors parameters() const override { return attached_.parameters; }
  NamedTensors buffers() const override { return attached_.buffers; }
  NamedTensors copied() const override { return head_->copied(); }

 private:
  static at::Tensor raw_input_of(const BatchContext& context) {
    const auto found = context.attachments.find(kRawInput);
    return found == context.attachments.end() ? at::Tensor() : found->second;
  }

  std::shared_ptr<Head> head_;
  ModuleTensors attached_;
  Traits traits_;
};

Traits traits_of(std::int64_t reach, ReachRule rule) {
  if (reach == 0) return {.cut = true, .from_above = false, .own = true};
  return {.own = true, .reach = {reach, rule}};
}

/// Options of the replay buffer; nothing where the config has no such table.
std::optional<ReplayOptions> read_buffer(Fields& options) {
  ReplayOptions replay;
  const bool is_wanted = options.has("buffer");
  std::int64_t batches = is_wanted ? 1 : 0;
  options.section(
      "buffer",
      "with schedule = \"free\": a replay buffer of batches (activations and "
      "labels), from which the block above reads, so that neither block waits "
      "for the other",
      [&](Fields& fields) {
        fields.key("batches", batches,
                   {.text = "batches that the buffer holds; 0: no buffer",
                    .unit = "batches",
                    .min = 0,
                    .max = 1e6});
        fields.key(
            "order", replay.order,
            {{"priority_lifo", ReplayOrder::priority_lifo},
             {"fifo", ReplayOrder::fifo},
             {"reservoir", ReplayOrder::reservoir}},
            {.text =
                 "which batch is read. priority_lifo: the newest of those used "
                 "least, as in DGL's code; fifo: the oldest of those used "
                 "least; with both, a full buffer drops its oldest batch. "
                 "reservoir: a random one, and the buffer holds a uniform "
                 "sample of all batches written"});
        fields.key("max_reuse", replay.max_reuse,
                   {.text = "how often a batch is used again before it leaves "
                            "the buffer; if limited, the block below waits "
                            "for room, so that the block above never runs "
                            "out of batches. -1: any number of times",
                    .unit = "times",
                    .min = -1,
                    .max = 1e6});
      });
  if (batches == 0) return std::nullopt;
  replay.batches = batches;
  return replay;
}

void read_slow_consumer(Fields& options, SlowConsumer& consumer) {
  options.key("slow_consumer", consumer,
              {{"block", SlowConsumer::block},
               {"drop_oldest", SlowConsumer::drop_oldest},
               {"latest", SlowConsumer::latest}},
              {.text = "with schedule = \"free\": what to do when the block "
                       "above is slower. block: this block waits; drop_oldest: "
                       "up to four batches wait to be sent, then the oldest is "
                       "dropped; latest: only the newest waits. Dropped "
                       "batches are counted and recorded"});
}

}  // namespace

MakeBoundary configure_local_loss(Fields& options, const PlugIns& plug_ins) {
  MakeHead make_head;
  options.section("head", "the auxiliary head", [&](Fields& fields) {
    std::string name = "linear";
    make_head = choose(fields, "name", plug_ins.heads, name, "auxiliary head")
                    .make(fields);
  });
  std::int64_t reach = 0;
  ReachRule rule = ReachRule::sum;
  options.key("reach", reach,
              {.text = "from how many blocks above gradients of local losses "
                       "come; 0: none (greedy), at most the number of blocks "
                       "less one",
               .unit = "blocks",
               .min = 0,
               .max = 1000});
  options.key("rule", rule,
              {{"sum", ReachRule::sum}, {"furthest", ReachRule::furthest}},
              {.text = "which of the losses within reach move the block: their "
                       "sum (overlapping) or the furthest (interlocking)"});
  Traits traits = traits_of(reach, rule);
  traits.inbox.buffer = read_buffer(options);
  read_slow_consumer(options, traits.inbox.slow_consumer);
  const auto make_lower = [make_head, traits](const BoundarySite& site) {
    Traits here = traits;
    if (here.inbox.buffer)
      here.inbox.buffer->key =
          random_key({site.seed, key_part("replay buffer"),
                      static_cast<std::uint64_t>(site.block)});
    return std::make_unique<LocalLoss>(make_head(site), site.layer, here);
  };
  return {make_lower, make_first_layer_upper};
}

MethodPage describe_local_loss() {
  return {.source =
              "greedy local losses: Nøkland, Eidnes, ICML 2019, "
              "arXiv:1901.06656 (head `predsim`); DGL: Belilovsky, Eickenberg, "
              "Oyallon, ICML 2020, arXiv:1901.08164; Mono-Forward: Gong, Li, "
              "Abdulla 2025, arXiv:2501.09238 (head `mono_forward`). With "
              "`reach`: overlapping "
              "(rule sum), Laskin et al. 2020, arXiv:2012.03837; interlocking "
              "(rule furthest), Gomez et al., JMLR 2022, arXiv:2010.04116",
          .kept =
              "the graph of the batch, until the head's gradient is there: at "
              "once; with a reach, until those of the heads within it are. A "
              "buffer keeps whole batches, activations and labels, for the "
              "block above",
          .batch_norm =
              "statistics move in the forward, once per batch, the head's "
              "own too",
          .randomness =
              "one forward, one mask; a head's dropout is keyed by the "
              "batch and the layer it stands above",
          .staleness =
              "none: d_batch = 0, d_upd = 0; what a block gets from below "
              "was made by the weights of the same turn. From a buffer it may "
              "be older, and used again: input_age and input_reuse count it"};
}

}  // namespace sluice
