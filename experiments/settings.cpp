#include "experiments/settings.h"

namespace sluice {

void Settings::describe(Fields& fields) {
  fields.key("name", name, {.text = "of the experiment, and of its folder"});
  fields.key("engine", engine,
             {.text = "what runs the blocks",
              .allowed = {"virtual", "threads", "processes"}});
  fields.key("seed", seed, {.text = "of weights, masks and orders", .min = 0});
  fields.key("blocks", blocks, "integer | list of ranges",
             {.text = "how the model is cut: 4, or [\"0-3\", \"4-\"]"});
  fields.key(
      "epochs", epochs,
      {.text = "how long it trains", .unit = "epochs", .min = 0, .max = 1e6});
  fields.key("turns", turns,
             {.text = "how long it trains; above 0 it replaces `epochs`",
              .unit = "batches",
              .min = 0,
              .max = 1e12});
  fields.key("batch_size", batch_size,
             {.text = "of every batch but an epoch's last",
              .unit = "samples",
              .min = 1});
  fields.key("drop_last", drop_last,
             {.text = "leave an epoch's last batch out when it is not full"});
  fields.key(
      "evaluate_every", evaluate_every,
      {.text = "0: only at the end", .unit = "epochs", .min = 0, .max = 1e6});
  fields.key("log_every", log_every,
             {.text = "between training records", .unit = "turns", .min = 1});
  fields.key("drain", drain, {.text = "apply what is in flight at the end"});
  fields.key("threads", threads,
             {.text = "intra-op threads of each block; 0: the cores divided by "
                      "the blocks",
              .min = 0,
              .max = 1024});
  fields.key("precision", precision,
             {.text = "of matrix products and convolutions",
              .allowed = {"fp32", "bf16"}});
  fields.key("memory_format", memory_format,
             {.text = "how images lie in memory; channels_last is faster for "
                      "convolutions",
              .allowed = {"contiguous", "channels_last"}});
  fields.key(
      "slack", slack,
      {.text = "messages that a boundary holds beyond the least it needs",
       .unit = "messages",
       .min = 0,
       .max = 1024});
  fields.key("timeout", timeout_seconds,
             {.text = "a neighbour that is silent for so long is given up",
              .unit = "s",
              .min = 1,
              .max = 1e6});
  fields.section("checkpoint", "what is saved; the end always is",
                 [&](Fields& part) {
                   part.key("every", checkpoint_every,
                            {.text = "0: only at the end",
                             .unit = "epochs",
                             .min = 0,
                             .max = 1e6});
                   part.key("initial", initial_checkpoint,
                            {.text = "save the weights before the first turn"});
                 });
}

}  // namespace sluice
