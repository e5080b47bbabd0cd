// A model whose layers the config lists, one table each:
//
//   [model]
//   name = "layers"
//   [[model.layer]]
//   type = "conv"
//   channels = 16
//   [[model.layer]]
//   type = "relu"
//
// Entries of the model's list, between which it can be cut, begin where `cut`
// says, by default at each layer that multiplies by weights (linear, conv,
// embedding) unless its entry has none yet: as in the models that are built in,
// whose weights a list of the same layers has, bit for bit.
#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

// Shapes of a sample that a layer takes.
constexpr unsigned kTokens = 1;  // [T] of a text
constexpr unsigned kFlat = 2;    // [C]
constexpr unsigned kPlaces = 4;  // [T, C] of a text
constexpr unsigned kMap = 8;     // [C, H, W]

/// Adds a layer; throws UserError in the name of `where`.
using AddLayer = std::function<void(ModelBuilder&, std::string_view where)>;

struct LayerType {
  std::string_view name;
  /// Reads the options of the layer.
  AddLayer (*configure)(Fields& fields);
  unsigned takes = 0;
  /// Its name in the entry, which has one of each; empty: it has no name there.
  std::string_view member = {};
  bool multiplies = false;  ///< by weights
};

AddLayer linear_layer(Fields& fields) {
  std::int64_t outputs = 0;
  fields.key("outputs", outputs,
             {.text = "width of a linear layer's output; 0: the number of "
                      "classes, of texts that of tokens",
              .min = 0});
  return [outputs](ModelBuilder& builder, std::string_view) {
    builder.linear(outputs > 0 ? outputs : builder.target().back());
  };
}

void check_fits(const ModelBuilder& builder, const SlidingWindow& window,
                std::string_view where) {
  if (builder.fits(window)) return;
  throw UserError(
      "{}: a {}x{} window with padding = {} does not fit on [{}]; set a "
      "smaller "
      "size, more padding, or fewer strides below",
      where, window.size, window.size, window.padding,
      fmt::join(builder.shape(), ", "));
}

AddLayer conv_layer(Fields& fields) {
  std::int64_t channels = 32;
  SlidingWindow window = {.size = 3, .stride = 1, .padding = 0};
  fields.key("channels", channels,
             {.text = "output channels of a convolution", .min = 1});
  fields.key(
      "size", window.size,
      {.text = "height and width of a window", .unit = "pixels", .min = 1});
  fields.key("stride", window.stride,
             {.text = "steps of a window", .unit = "pixels", .min = 1});
  fields.key("padding", window.padding,
             {.text = "rows and columns of zeros around the map",
              .unit = "pixels",
              .min = 0});
  return [channels, window](ModelBuilder& builder, std::string_view where) {
    check_fits(builder, window, where);
    builder.conv(channels, window);
  };
}

AddLayer pool_layer(Fields& fields, Pooling pooling) {
  SlidingWindow window = {.size = 2, .stride = 0, .padding = 0};
  fields.key(
      "size", window.size,
      {.text = "height and width of a window", .unit = "pixels", .min = 1});
  fields.key("stride", window.stride,
             {.text = "steps of a window; 0: as wide as the window",
              .unit = "pixels",
              .min = 0});
  fields.key(
      "padding", window.padding,
      {.text = "rows and columns around the map, at most half of size; an "
               "average counts them as zeros",
       .unit = "pixels",
       .min = 0});
  if (window.padding > window.size / 2)
    fields.reject("padding", fmt::format("{} is more than half of size = {}",
                                         window.padding, window.size));
  if (window.stride == 0) window.stride = window.size;
  return [pooling, window](ModelBuilder& builder, std::string_view where) {
    check_fits(builder, window, where);
    builder.pool(pooling, window);
  };
}

AddLayer max_pool_layer(Fields& fields) {
  return pool_layer(fields, Pooling::max);
}
AddLayer average_pool_layer(Fields& fields) {
  return pool_layer(fields, Pooling::average);
}

AddLayer dropout_layer(Fields& fields) {
  double p = 0.5;
  DropoutUnit unit = DropoutUnit::element;
  fields.key("p", p,
             {.text = "probability of dropping a unit", .min = 0, .max = 0.99});
  fields.key(
      "unit", unit,
      {{"element", DropoutUnit::element}, {"channel", DropoutUnit::channel}},
      {.text = "what a dropout drops as one"});
  return [p, unit](ModelBuilder& builder, std::string_view) {
    builder.dropout(p, unit);
  };
}

AddLayer embedding_layer(Fields& fields) {
  std::int64_t width = 128;
  fields.key("width", width,
             {.text = "width of an embedding's vectors", .min = 1});
  return [width](ModelBuilder& builder, std::string_view) {
    builder.embedding(width);
  };
}

/// A layer without options.
template <ModelBuilder& (ModelBuilder::*add)()>
AddLayer plain_layer(Fields& /*fields*/) {
  return [](ModelBuilder& builder, std::string_view) { (builder.*add)(); };
}

template <Activation activation>
AddLayer activation_layer(Fields& /*fields*/) {
  return [](ModelBuilder& builder, std::string_view) {
    builder.activation(activation);
  };
}

std::span<const LayerType> layer_types() {
  constexpr unsigned kValues = kFlat | kPlaces | kMap;
  static constexpr std::array kTypes = {
      LayerType{"linear", linear_layer, kFlat | kPlaces, "linear", true},
      LayerType{"conv", conv_layer, kMap, "conv", true},
      LayerType{"embedding", embedding_layer, kTokens, "embedding", true},
      LayerType{"batch_norm", plain_layer<&ModelBuilder::norm>, kFlat | kMap,
                "norm"},
      LayerType{"layer_norm", plain_layer<&ModelBuilder::layer_norm>,
                kFlat | kPlaces, "layer_norm"},
      LayerType{"relu", activation_layer<Activation::relu>, kValues},
      LayerType{"leaky_relu", activation_layer<Activation::leaky_relu>,
                kValues},
      LayerType{"tanh", activation_layer<Activation::tanh>, kValues},
      LayerType{"gelu", activation_layer<Activation::gelu>, kValues},
      LayerType{"max_pool", max_pool_layer, kMap},
      LayerType{"avg_pool", average_pool_layer, kMap},
      LayerType{"global_pool", plain_layer<&ModelBuilder::global_average_pool>,
                kMap},
      LayerType{"flatten", plain_layer<&ModelBuilder::flatten>, kFlat | kMap},
      LayerType{"dropout", dropout_layer, kValues, "dropout"},
  };
  return kTypes;
}

/// A table of the config's list, read.
struct ListedLayer {
  std::string where;  ///< "model.layer[2] (conv)"
  unsigned takes = 0;
  bool begins_entry = false;
  AddLayer add;
};

/// Reads the tables one after another.
class ListReader {
 public:
  /// index -1: for the manual alone.
  void read(Fields& fields, std::int64_t index) {
    const LayerType& type = read_type(fields, index);
    AddLayer add = type.configure(fields);
    const bool begins = read_cut(fields, type);
    if (index < 0) return;
    layers_.push_back(
        {.where = fmt::format("model.layer[{}] ({})", index, type.name),
         .takes = type.takes,
         .begins_entry = begins,
         .add = std::move(add)});
  }

  std::vector<ListedLayer> layers() && { return std::move(layers_); }

 private:
  static const LayerType& read_type(Fields& fields, std::int64_t index) {
    std::vector<std::string> names;
    for (const LayerType& type : layer_types()) names.emplace_back(type.name);
    if (index >= 0 && !fields.has("type"))
      fields.reject("type", fmt::format("is missing; there are: {}",
                                        fmt::join(names, ", ")));
    std::string name = "linear";
    fields.key(
        "type", name,
        {.text = "what the layer does", .allowed = names, .decides = true});
    return *std::find_if(
        layer_types().begin(), layer_types().end(),
        [&](const LayerType& type) { return type.name == name; });
  }

  bool read_cut(Fields& fields, const LayerType& type) {
    bool cut = type.multiplies && entry_multiplies_;
    fields.key(
        "cut", cut,
        {.text = "whether the model can be cut below this layer; default: "
                 "if it is linear, conv or embedding, and one of these "
                 "lies between it and the cut below"});
    const bool begins = cut || layers_.empty();
    if (begins) {
      members_.clear();
      entry_multiplies_ = false;
    }
    remember(fields, type);
    return begins;
  }

  void remember(const Fields& fields, const LayerType& type) {
    entry_multiplies_ = entry_multiplies_ || type.multiplies;
    if (type.member.empty()) return;
    if (std::find(members_.begin(), members_.end(), type.member) !=
        members_.end())
      fields.reject("type",
                    fmt::format("there is a {} already since the last cut, and "
                                "two would have the same name in checkpoints "
                                "and draws: set cut = true here",
                                type.name));
    members_.push_back(type.member);
  }

  std::vector<ListedLayer> layers_;
  std::vector<std::string_view> members_;  // of the entry at hand
  bool entry_multiplies_ = false;
};

unsigned kind_at(const ModelBuilder& builder, const SampleSpec& sample) {
  switch (builder.shape().size()) {
    case 1:
      return sample.is_text ? kTokens : kFlat;
    case 2:
      return kPlaces;
    default:
      return kMap;
  }
}

std::string text_of_kinds(unsigned kinds) {
  std::vector<std::string_view> texts;
  if ((kinds & kTokens) != 0) texts.emplace_back("tokens of a text, [T]");
  if ((kinds & kFlat) != 0) texts.emplace_back("[C]");
  if ((kinds & kPlaces) != 0) texts.emplace_back("[T, C] of a text");
  if ((kinds & kMap) != 0) texts.emplace_back("[C, H, W]");
  return fmt::format("{}", fmt::join(texts, " or "));
}

/// What makes of the one what the other takes.
std::string_view advice_for(unsigned takes, unsigned found) {
  if (found == kTokens) return "; begin with an embedding";
  if (found == kMap && (takes & kFlat) != 0)
    return "; put flatten or global_pool before it";
  return "";
}

void check_takes(const ListedLayer& layer, const ModelBuilder& builder,
                 const SampleSpec& sample) {
  const unsigned found = kind_at(builder, sample);
  if ((layer.takes & found) != 0) return;
  throw UserError(
      "{}: takes {}, not {} [{}]{}", layer.where, text_of_kinds(layer.takes),
      found == kTokens ? "tokens" : "what comes from below,",
      fmt::join(builder.shape(), ", "), advice_for(layer.takes, found));
}

void check_ends_in_classes(const ModelBuilder& builder,
                           const ListedLayer& last) {
  if (builder.shape() == builder.target()) return;
  throw UserError(
      "{}: the last layer gives [{}], and the data want [{}]; end the list "
      "with "
      "{{type = \"linear\"}}, whose outputs are the classes",
      last.where, fmt::join(builder.shape(), ", "),
      fmt::join(builder.target(), ", "));
}

Model make_listed(const std::vector<ListedLayer>& layers,
                  const SampleSpec& sample) {
  if (layers.empty())
    throw UserError(
        "model.layer: no layers are listed; write a table [[model.layer]] with "
        "a "
        "type for each");
  ModelBuilder builder(sample, Texts::taken);
  for (const ListedLayer& layer : layers) {
    if (layer.begins_entry) builder.entry();
    check_takes(layer, builder, sample);
    layer.add(builder, layer.where);
  }
  check_ends_in_classes(builder, layers.back());
  return builder.finish();
}

}  // namespace

MakeModel listed_layers(Fields& fields) {
  ListReader reader;
  fields.list(
      "layer", "layers from the input up",
      [&](Fields& row, std::int64_t index) { reader.read(row, index); });
  return [layers = std::move(reader).layers()](const SampleSpec& sample) {
    return make_listed(layers, sample);
  };
}

}  // namespace sluice
