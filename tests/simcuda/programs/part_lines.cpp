#include "tests/simcuda/programs/part_lines.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "experiments/config/manual/catalog.h"
#include "lib/base/error.h"
#include "modules/layer_types.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 4> kWithoutTensors = {
    "datasets", "schedules", "orders", "transports"};

constexpr std::string_view kText = "TEXT";
const char* const kDigits =
    "data = {train = 320, test = 64, on_device = false}\n";

using LinesByName = std::map<std::string, std::string, std::less<>>;

/// By table: TEXT at the beginning stands for a small text, NAME for the part.
const LinesByName kLinesOfTables = {
    {"methods", "blocks = 3\nboundary = {policy = 'NAME'}\n"},
    {"heads",
     "blocks = 2\nmodel = {name = 'resnet', depth = 8, width = 4}\n"
     "boundary = {policy = 'local_loss', head = {name = 'NAME'}}\n"},
    {"models", "blocks = 2\nmodel = {name = 'NAME', width = 2}\n"},
    {"losses", "blocks = 2\nloss = {name = 'NAME'}\n"},
    {"optimizers", "blocks = 2\noptimizer = {name = 'NAME', lr = 0.01}\n"},
    {"corrections",
     "blocks = 2\nboundary = {policy = 'delayed_gradient'}\noptimizer = {lr = "
     "0.01, momentum = 0.9, correction = {name = 'NAME'}}\n"},
    {"weights",
     "blocks = 2\nboundary = {policy = 'delayed_gradient', weights = "
     "'NAME'}\noptimizer = {lr = 0.01, momentum = 0.9}\n"},
    {"codecs",
     "blocks = 2\nmodel = {name = 'resnet', depth = 8, width = 4}\n"
     "boundary = {policy = 'delayed_gradient', codec = 'NAME'}\n"},
    {"replicas", "replicas = {count = 2, policy = 'NAME'}\n"},
    {"compressors", "replicas = {count = 2, compress = 'NAME'}\n"},
    {"layers",
     "optimizer.lr = 0.001\nmodel = {name = 'layers', layer = [{type = 'conv', "
     "channels = 4}, {type "
     "= 'NAME'}, {type = 'flatten'}, {type = 'linear'}]}\n"},
};

/// A network needs a file of PyTorch's, and weights in memory that replicas
/// share are refused on a GPU.
constexpr std::array<std::string_view, 2> kNotHere = {"models/torchscript",
                                                      "replicas/shared"};

std::string sized(const char* sizes) {
  return fmt::format("blocks = 2\nmodel = {{name = 'NAME', {}}}\n", sizes);
}

constexpr const char* kForwardForward =
    "blocks = 2\nmodel = {name = 'ff_mlp', hidden = [24, 20]}\n"
    "loss = {name = 'goodness'}\n"
    "boundary = {policy = 'local_loss', head = {name = 'forward_forward'}}\n";

constexpr const char* kRebuilt =
    "blocks = 2\nboundary = {policy = 'fully_decoupled', weights = 'NAME', "
    "statistics = 'forward'}\n";
constexpr const char* kDoubleBuffer =
    "blocks = 2\ndrop_last = true\npipeline = {order = '1f1b', micro_batches "
    "= 4, weights = 'NAME', flush = false}\noptimizer = {lr = 0.01, momentum "
    "= 0.9}\n";
constexpr const char* kFlatLayers =
    "model = {name = 'layers', layer = [{type = 'flatten'}, {type = 'linear', "
    "outputs = 10}, {type = 'NAME'}, {type = 'linear'}]}\n";

/// By part, where the table's lines don't fit it.
const LinesByName kLinesOfParts = {
    {"methods/blend",
     "blocks = 2\nboundary = {policy = 'blend', sources = [{policy = "
     "'backprop', weight = 0.5}, {policy = 'local_loss', weight = 0.5}]}\n"},
    {"heads/forward_forward", kForwardForward},
    {"heads/vocabulary",
     "TEXTblocks = 2\nmodel = {name = 'gpt', layers = 2, width = 16, heads = "
     "2}\nboundary = {policy = 'local_loss', head = {name = 'vocabulary'}}\n"},
    {"predictors/synthesizer",
     "blocks = 2\nboundary = {policy = 'synthetic_gradient'}\n"},
    {"predictors/input_model",
     "blocks = 2\nboundary = {policy = 'synthetic_gradient', unlock = {hidden "
     "= 1, width = 16, optimizer = {name = 'sgd', lr = 0.001}}}\n"},
    {"codecs/codebook",
     "blocks = 2\nmodel = {name = 'resnet', depth = 8, width = 4}\n"
     "boundary = {policy = 'delayed_gradient', codec = {up = {name = "
     "'codebook', size = 32, dim = 4}, down = 'int8'}}\n"},
    {"codecs/delta",
     "blocks = 2\nmodel = {name = 'resnet', depth = 8, width = 4}\n"
     "boundary = {policy = 'delayed_gradient', codec = {up = 'delta', down = "
     "'int8'}}\n"},
    {"weights/current", kRebuilt},
    {"weights/rebuilt", kRebuilt},
    {"weights/double_buffer", kDoubleBuffer},
    {"weights/double_buffer_predict", kDoubleBuffer},
    {"models/mlp", sized("hidden = [24, 20], batch_norm = true")},
    {"models/conv3", sized("channels = 4")},
    {"models/small_conv", sized("channels = [4, 4], hidden = 8")},
    {"models/vgg8b", sized("width = 0.03, hidden = 8")},
    {"models/vgg11b", sized("width = 0.03, hidden = 8")},
    {"models/resnet", sized("depth = 8, width = 2")},
    {"models/revnet", sized("blocks = [1, 1], width = 4")},
    {"models/vit", sized("patch = 4, layers = 2, width = 8, heads = 2")},
    {"models/mlp_mixer",
     sized("patch = 4, layers = 2, width = 8, token_hidden = 4, channel_hidden "
           "= 8")},
    {"models/gpt", "TEXT" + sized("layers = 2, width = 8, heads = 2")},
    {"models/llama", "TEXT" + sized("layers = 2, width = 8, heads = 2")},
    {"models/lstm", "TEXT" + sized("layers = 2, width = 8")},
    {"models/layers",
     sized("layer = [{type = 'flatten'}, {type = 'linear', outputs = 10}, "
           "{type = 'batch_norm'}, {type = 'dropout', p = 0.2}, {type = "
           "'linear'}]")},
    {"layers/linear", kFlatLayers},
    {"layers/flatten", kFlatLayers},
    {"layers/layer_norm", kFlatLayers},
    {"layers/embedding",
     "TEXTmodel = {name = 'layers', layer = [{type = 'embedding', width = 8}, "
     "{type = 'linear'}]}\n"},
    {"models/ff_mlp", kForwardForward},
    {"losses/goodness", kForwardForward},
};

std::string key_of(const ListedPart& part) {
  return part.kind + "/" + part.name;
}

void replace(std::string& text, std::string_view what,
             const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string text_in(const std::string& folder) {
  std::string letters;
  for (int i = 0; i < 640; ++i) letters += static_cast<char>('a' + i * i % 23);
  const std::string path = folder + "/text.txt";
  std::ofstream(path) << letters;
  return fmt::format(
      "data = {{name = 'text', context = 16, file = '{}', "
      "on_device = false}}\n",
      path);
}

}  // namespace

void PrintTo(const ListedPart& part, std::ostream* out) {
  *out << key_of(part);
}

std::vector<ListedPart> listed_parts() {
  std::vector<ListedPart> parts;
  for (const ListedTable& table : listed_tables()) {
    if (std::find(kWithoutTensors.begin(), kWithoutTensors.end(), table.kind) !=
        kWithoutTensors.end())
      continue;
    for (const ListedRow& row : table.rows)
      parts.push_back({table.kind, row.name});
  }
  std::erase_if(parts, [](const ListedPart& part) {
    return std::find(kNotHere.begin(), kNotHere.end(), key_of(part)) !=
           kNotHere.end();
  });
  for (const LayerRow& row : layer_types())
    parts.push_back({"layers", std::string(row.name)});
  return parts;
}

std::string lines_with(const ListedPart& part, const std::string& folder) {
  auto found = kLinesOfParts.find(key_of(part));
  if (found == kLinesOfParts.end()) {
    found = kLinesOfTables.find(part.kind);
    if (found == kLinesOfTables.end())
      throw UserError("no config is known for {}", key_of(part));
  }
  std::string lines = found->second;
  replace(lines, "NAME", part.name);
  const bool has_text = lines.starts_with(kText);
  if (has_text) lines.erase(0, kText.size());
  return "batch_size = 8\n" +
         (has_text ? text_in(folder) : std::string(kDigits)) + lines;
}

}  // namespace sluice
