#include "experiments/config/reading/codecs.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/plug_in.h"
#include "lib/base/table.h"
#include "lib/boundaries/codecs/zstd.h"
#include "lib/replicas/compressor.h"

namespace sluice {
namespace {

/// A compressor remembers what it left out for the next gradient of the same
/// weights, and at a boundary the next batch has other samples.
void refuse_compressor(const Fields& fields, const std::string& codec) {
  const std::vector<std::string> names = names_of(compressors());
  const std::vector<std::string> own = names_of(codecs());
  const auto is_in = [&](const std::vector<std::string>& all) {
    return std::find(all.begin(), all.end(), codec) != all.end();
  };
  if (is_in(names) && !is_in(own))
    fields.reject("codec",
                  fmt::format("'{}' compresses the gradients that replicas "
                              "exchange (replicas.compress): it remembers what "
                              "it leaves out for the next one, and at a "
                              "boundary the next batch has other samples; "
                              "codecs are: {}",
                              codec, joined(names_of(codecs()))));
}

bool is_table(const ConfigNode* node) {
  return node != nullptr &&
         std::holds_alternative<ConfigNode::Table>(node->value);
}

/// The codec that `key` names, with its options if it is a table.
BoundaryCodecs read_codec(Fields& fields, const std::string& key,
                          const ConfigNode* written, CodecWays ways) {
  std::string name = "none";
  const auto make = [&](const CodecRow& row, Fields& options) {
    if (ways.down && !row.make.goes_down)
      fields.reject(key,
                    fmt::format("'{0}' is for activations, which go up: set "
                                "codec = {{up = \"{0}\", down = \"int8\"}}, "
                                "or down = \"none\"",
                                name));
    if (row.make.goes_both_ways && !(ways.up && ways.down))
      fields.reject(key,
                    fmt::format("'{0}' is for activations and gradients at "
                                "once: set codec = {{name = \"{0}\"}}",
                                name));
    if (row.make.configure != nullptr) return row.make.configure(options, ways);
    const std::shared_ptr<const Codec> codec = row.make();
    return BoundaryCodecs{codec, codec};
  };
  if (!is_table(written)) {
    const CodecRow& row =
        choose(fields, key, codecs(), name, "codec", /*has_options=*/false);
    Fields defaults(nullptr, "");
    return make(row, defaults);
  }
  BoundaryCodecs read;
  fields.section(key, "the codec, with its options", [&](Fields& options) {
    read = make(choose(options, "name", codecs(), name, "codec"), options);
    describe_common_options(options, ways, read);
  });
  return read;
}

}  // namespace

void describe_common_options(Fields& options, CodecWays ways,
                             BoundaryCodecs& codecs) {
  std::int64_t level = 0;
  options.key(
      "zstd", level,
      {.text = "level of zstd, which makes what the codec sends smaller "
               "without loss, where it can; 0: without",
       .min = 0,
       .max = kMostZstd});
  if (level > 0 && !codecs.up && !codecs.down)
    options.reject("zstd",
                   "makes the codes of a codec smaller, and numbers are sent "
                   "as they are: choose a codec, or for low_rank a code");
  for (auto* codec : {&codecs.up, &codecs.down})
    if (*codec && level > 0) *codec = in_zstd(*codec, static_cast<int>(level));
  if (ways.up)
    options.key("exact_evaluations", codecs.evaluates_exactly,
                {.text = "activations of evaluations are sent as they are, "
                         "without the codec"});
}

BoundaryCodecs read_codecs(Fields& fields, const ConfigNode* written) {
  const bool is_split = is_table(written) && (written->find("up") != nullptr ||
                                              written->find("down") != nullptr);
  if (!is_split) {
    try {
      return read_codec(fields, "codec", written, {});
    } catch (const UserError&) {
      if (const auto* name =
              written ? std::get_if<std::string>(&written->value) : nullptr)
        refuse_compressor(fields, *name);
      throw;
    }
  }
  BoundaryCodecs read;
  fields.section(
      "codec", "codecs, of each direction its own", [&](Fields& own) {
        read = read_codec(own, "up", written->find("up"), {true, false});
        read.down =
            read_codec(own, "down", written->find("down"), {false, true}).down;
      });
  return read;
}

}  // namespace sluice
