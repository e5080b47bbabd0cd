#pragma once

#include <cstdint>
#include <string>

#include "lib/base/config.h"

namespace sluice {

/// The plain keys of an experiment's config, as they are written: everything
/// but data, model, loss, boundaries and optimizers.
struct Settings {
  std::string name = "run";
  std::string engine = "virtual";
  std::int64_t seed = 1;
  ConfigNode blocks = {.value = std::int64_t{2}};
  double epochs = 5;
  std::int64_t turns = 0;
  std::int64_t batch_size = 64;
  bool drop_last = false;
  double evaluate_every = 1;
  std::int64_t log_every = 1;
  bool drain = true;
  std::int64_t threads = 0;
  std::string precision = "fp32";
  std::string memory_format = "contiguous";
  std::int64_t slack = 2;
  std::int64_t timeout_seconds = 600;
  double checkpoint_every = 0;
  bool initial_checkpoint = false;

  void describe(Fields& fields);
};

}  // namespace sluice
