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
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/added_rows.h"
#include "lib/base/error.h"
#include "modules/layer_types.h"
#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

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

}  // namespace

std::span<const LayerRow> layer_types() {
  constexpr unsigned kTakesValues = kTakesFlat | kTakesPlaces | kTakesMap;
  static constexpr LayerRow kRows[] = {
      {"linear",
       "fully connected, of a text at every place",
       {linear_layer, kTakesFlat | kTakesPlaces, "linear", true}},
      {"conv",
       "convolution with a square window",
       {conv_layer, kTakesMap, "conv", true}},
      {"embedding",
       "tokens of a text as vectors",
       {embedding_layer, kTakesTokens, "embedding", true}},
      {"batch_norm",
       "BatchNorm",
       {plain_layer<&ModelBuilder::norm>, kTakesFlat | kTakesMap, "norm",
        false}},
      {"layer_norm",
       "LayerNorm over the last dimension",
       {plain_layer<&ModelBuilder::layer_norm>, kTakesFlat | kTakesPlaces,
        "layer_norm", false}},
      {"relu",
       "max(x, 0)",
       {activation_layer<Activation::relu>, kTakesValues, "", false}},
      {"leaky_relu",
       "x, below 0 a hundredth of it",
       {activation_layer<Activation::leaky_relu>, kTakesValues, "", false}},
      {"tanh",
       "hyperbolic tangent",
       {activation_layer<Activation::tanh>, kTakesValues, "", false}},
      {"gelu",
       "x times the normal distribution up to x",
       {activation_layer<Activation::gelu>, kTakesValues, "", false}},
      {"max_pool", "maxima of windows", {max_pool_layer, kTakesMap, "", false}},
      {"avg_pool",
       "means of windows",
       {average_pool_layer, kTakesMap, "", false}},
      {"global_pool",
       "the mean over all pixels",
       {plain_layer<&ModelBuilder::global_average_pool>, kTakesMap, "", false}},
      {"flatten",
       "maps as [C]",
       {plain_layer<&ModelBuilder::flatten>, kTakesFlat | kTakesMap, "",
        false}},
      {"dropout",
       "zeroes units at random, in training",
       {dropout_layer, kTakesValues, "dropout", false}},
  };
  return with_added<LayerType>(kRows);
}

namespace {

/// A table of the config's list, read.
struct ListedLayer {
  std::string where;  ///< "model.layer[2] (conv)"
  unsigned takes = 0;
  bool begins_entry = false;
  AddLayer add;
};

/// Reads a list of layers, table after table.
class ListReader {
 public:
  /// index -1: for the manual alone.
  void read(Fields& fields, std::int64_t index) {
    const LayerRow& row = read_type(fields, index);
    const LayerType& type = row.make;
    AddLayer add = type.configure(fields);
    const bool begins = read_cut(fields, row);
    if (index < 0) return;
    layers_.push_back(
        {.where = fmt::format("model.layer[{}] ({})", index, row.name),
         .takes = type.takes,
         .begins_entry = begins,
         .add = std::move(add)});
  }

  std::vector<ListedLayer> layers() && { return std::move(layers_); }

 private:
  static const LayerRow& read_type(Fields& fields, std::int64_t index) {
    const std::vector<std::string> names = names_of(layer_types());
    if (index >= 0 && !fields.has("type"))
      fields.reject("type", fmt::format("is missing; there are: {}",
                                        fmt::join(names, ", ")));
    std::string name = "linear";
    fields.key(
        "type", name,
        {.text = "what the layer does", .allowed = names, .decides = true});
    return find_row(layer_types(), name, "layer");
  }

  bool read_cut(Fields& fields, const LayerRow& row) {
    const LayerType& type = row.make;
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
    remember(fields, row);
    return begins;
  }

  void remember(const Fields& fields, const LayerRow& row) {
    const LayerType& type = row.make;
    entry_multiplies_ = entry_multiplies_ || type.multiplies;
    if (type.member.empty()) return;
    if (std::find(members_.begin(), members_.end(), type.member) !=
        members_.end())
      fields.reject("type",
                    fmt::format("there is a {} already since the last cut, and "
                                "two would have the same name in checkpoints "
                                "and draws: set cut = true here",
                                row.name));
    members_.push_back(type.member);
  }

  std::vector<ListedLayer> layers_;
  std::vector<std::string_view> members_;  // of the entry at hand
  bool entry_multiplies_ = false;
};

unsigned kind_at(const ModelBuilder& builder, const SampleSpec& sample) {
  switch (builder.shape().size()) {
    case 1:
      return sample.is_text ? kTakesTokens : kTakesFlat;
    case 2:
      return kTakesPlaces;
    default:
      return kTakesMap;
  }
}

std::string text_of_kinds(unsigned kinds) {
  std::vector<std::string_view> texts;
  if ((kinds & kTakesTokens) != 0) texts.emplace_back("tokens of a text, [T]");
  if ((kinds & kTakesFlat) != 0) texts.emplace_back("[C]");
  if ((kinds & kTakesPlaces) != 0) texts.emplace_back("[T, C] of a text");
  if ((kinds & kTakesMap) != 0) texts.emplace_back("[C, H, W]");
  return fmt::format("{}", fmt::join(texts, " or "));
}

/// Advice on a layer that turns one kind of features into the other.
std::string_view advice_for(unsigned takes, unsigned found) {
  if (found == kTakesTokens) return "; begin with an embedding";
  if (found == kTakesMap && (takes & kTakesFlat) != 0)
    return "; put flatten or global_pool before it";
  return "";
}

void check_takes(const ListedLayer& layer, const ModelBuilder& builder,
                 const SampleSpec& sample) {
  const unsigned found = kind_at(builder, sample);
  if ((layer.takes & found) != 0) return;
  throw UserError(
      "{}: takes {}, not {} [{}]{}", layer.where, text_of_kinds(layer.takes),
      found == kTakesTokens ? "tokens" : "what comes from below,",
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
