// Weights under the names that other programs give them. That transformers,
// torchvision and timm give these: scripts/check-interop.
#include "experiments/runs/checkpoints/public_names.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/shards.h"
#include "modules/models.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::public_names_test {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kContext = 6;
constexpr std::int64_t kVocabulary = 5;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kWidth = 8;

ConfigNode table(
    std::vector<std::pair<std::string, ConfigNode::Value>> entries) {
  ConfigNode node;
  for (auto& [key, value] : entries)
    node.set(key, ConfigNode{.value = std::move(value)});
  return node;
}

/// A small model of a table, and how many tensors it has there.
struct Case {
  std::string names;
  std::string model;
  ConfigNode options;
  SampleSpec sample;
  std::vector<std::string> some;  ///< of its public names
};

std::vector<Case> cases() {
  const SampleSpec text = {{kContext}, kVocabulary, /*is_text=*/true};
  const ConfigNode transformer =
      table({{"layers", kLayers}, {"width", kWidth}, {"heads", kHeads}});
  ConfigNode vit = transformer;
  vit.set("patch", {.value = std::int64_t{16}});
  const ConfigNode narrow = table({{"width", std::int64_t{4}}});
  const SampleSpec image = {{3, 32, 32}, 10};
  return {{"gpt2",
           "gpt",
           transformer,
           text,
           {"wte.weight", "wpe.weight", "h.2.attn.c_attn.weight", "ln_f.bias"}},
          {"llama",
           "llama",
           transformer,
           text,
           {"model.embed_tokens.weight", "model.layers.2.mlp.down_proj.weight",
            "lm_head.weight"}},
          {"torchvision_resnet",
           "resnet18",
           narrow,
           image,
           {"conv1.weight", "layer1.0.conv1.weight", "layer4.1.bn2.running_var",
            "layer2.0.downsample.1.bias", "fc.weight"}},
          {"torchvision_resnet",
           "resnet34",
           narrow,
           image,
           {"layer3.5.conv2.weight", "layer4.0.downsample.0.weight"}},
          {"torchvision_resnet",
           "resnet50",
           narrow,
           image,
           {"layer1.0.downsample.0.weight", "layer3.5.bn3.weight"}},
          {"torchvision_vit",
           "vit",
           vit,
           image,
           {"class_token", "conv_proj.bias",
            "encoder.layers.encoder_layer_2.self_attention.in_proj_weight",
            "heads.head.weight"}},
          {"timm_vit",
           "vit",
           vit,
           image,
           {"cls_token", "blocks.0.attn.qkv.weight", "norm.bias"}}};
}

NamedModel named(const Case& of, const Model& model) {
  return {of.model, std::ssize(model.layers), model.sample.shape[0]};
}

Block whole_of(const Model& model) {
  return make_block(model, 1, 0, std::ssize(model.layers) - 1, /*seed=*/1,
                    MemoryFormat::contiguous);
}

NamedTensors tensors_of(Block& block) {
  NamedTensors all = block.parameters();
  for (const auto& buffer : block.buffers()) all.push_back(buffer);
  return all;
}

TEST(PublicNames, AreThoseOfAllTensorsAndLeadBack) {
  std::set<std::string> tables;
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.names + " " + each.model);
    tables.insert(each.names);
    const NameTable& names = find_names(each.names, each.model);
    const Model model = make_model(each.model, each.sample, each.options);
    Block block = whole_of(model);
    const NamedTensors ours = tensors_of(block);
    const NamedTensors theirs =
        with_public_names(names, named(each, model), ours);
    std::map<std::string, Tensor> by_name(theirs.begin(), theirs.end());
    EXPECT_EQ(by_name.size(), ours.size());
    for (const std::string& name : each.some)
      EXPECT_TRUE(by_name.contains(name)) << name;
    const NamedTensors back = with_our_names(names, named(each, model), theirs);
    const std::map<std::string, Tensor> again(back.begin(), back.end());
    for (const auto& [name, tensor] : ours) {
      ASSERT_TRUE(again.contains(name)) << name;
      EXPECT_TRUE(at::equal(again.at(name), tensor)) << name;
    }
  }
  EXPECT_EQ(tables.size(), name_tables().size());
}

/// A file as GPT-2's, with more positions than the data's context.
NamedTensors gpt2_file(const std::string& prefix = "") {
  at::manual_seed(3);
  NamedTensors file;
  const auto add = [&](const std::string& name,
                       const std::vector<std::int64_t>& sizes) {
    file.emplace_back(prefix + name, at::randn(sizes) / 4);
  };
  add("wte.weight", {kVocabulary, kWidth});
  add("wpe.weight", {2 * kContext, kWidth});
  for (std::int64_t n = 0; n < kLayers; ++n) {
    const std::string layer = "h." + std::to_string(n) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      add(layer + norm + ".weight", {kWidth});
      add(layer + norm + ".bias", {kWidth});
    }
    add(layer + "attn.c_attn.weight", {kWidth, 3 * kWidth});
    add(layer + "attn.c_attn.bias", {3 * kWidth});
    add(layer + "attn.c_proj.weight", {kWidth, kWidth});
    add(layer + "attn.c_proj.bias", {kWidth});
    add(layer + "mlp.c_fc.weight", {kWidth, 4 * kWidth});
    add(layer + "mlp.c_fc.bias", {4 * kWidth});
    add(layer + "mlp.c_proj.weight", {4 * kWidth, kWidth});
    add(layer + "mlp.c_proj.bias", {kWidth});
    // The mask that older files have beside the weights.
    file.emplace_back(prefix + layer + "attn.bias",
                      at::ones({1, 1, kContext, kContext}));
  }
  add("ln_f.weight", {kWidth});
  add("ln_f.bias", {kWidth});
  return file;
}

/// GPT-2 written out, from its file.
class PlainGpt2 {
 public:
  explicit PlainGpt2(const NamedTensors& file)
      : weights_(file.begin(), file.end()) {}

  Tensor logits(const Tensor& tokens) {
    const std::int64_t places = tokens.size(1);
    Tensor h = weights_.at("wte.weight").index({tokens}) +
               weights_.at("wpe.weight").slice(0, 0, places);
    for (std::int64_t n = 0; n < kLayers; ++n) {
      const std::string layer = "h." + std::to_string(n) + ".";
      const Tensor qkv = conv1d(norm(h, layer + "ln_1"), layer + "attn.c_attn");
      h = h + conv1d(attention(qkv), layer + "attn.c_proj");
      const Tensor hidden = conv1d(norm(h, layer + "ln_2"), layer + "mlp.c_fc");
      const Tensor gelu =
          0.5 * hidden *
          (1 +
           (std::sqrt(2 / M_PI) * (hidden + 0.044715 * hidden.pow(3))).tanh());
      h = h + conv1d(gelu, layer + "mlp.c_proj");
    }
    return norm(h, "ln_f").matmul(weights_.at("wte.weight").t());
  }

 private:
  Tensor norm(const Tensor& x, const std::string& name) {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() *
               weights_.at(name + ".weight") +
           weights_.at(name + ".bias");
  }

  Tensor conv1d(const Tensor& x, const std::string& name) {
    return x.matmul(weights_.at(name + ".weight")) +
           weights_.at(name + ".bias");
  }

  static Tensor attention(const Tensor& qkv) {
    const std::int64_t places = qkv.size(1);
    const Tensor later = at::ones({places, places}, at::kBool).triu(1);
    std::vector<Tensor> heads;
    const std::int64_t width = kWidth / kHeads;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto part = [&](std::int64_t i) {
        return qkv.narrow(2, i * kWidth + head * width, width);
      };
      const Tensor scores = part(0).matmul(part(1).transpose(1, 2)) /
                            std::sqrt(static_cast<double>(width));
      heads.push_back(
          scores.masked_fill(later, -std::numeric_limits<double>::infinity())
              .softmax(-1)
              .matmul(part(2)));
    }
    return at::cat(heads, 2);
  }

  std::map<std::string, Tensor> weights_;
};

TEST(PublicNames, LogitsOfAGpt2FileAreThoseOfGpt2) {
  const c10::NoGradGuard no_grad;
  const NamedTensors file = gpt2_file();
  for (const bool tied : {false, true}) {
    ConfigNode options =
        table({{"layers", kLayers}, {"width", kWidth}, {"heads", kHeads}});
    options.set("tied", {.value = tied});
    const Model model =
        make_model("gpt", {{kContext}, kVocabulary, /*is_text=*/true}, options);
    Block block = whole_of(model);
    const Tensor tokens = at::randint(kVocabulary, {4, kContext}, at::kLong);
    const Pass pass = {.seed = 1, .batch = 0, .training = false};
    const Tensor expected = PlainGpt2(file).logits(tokens);
    EXPECT_FALSE(
        at::allclose(block.forward({tokens}, pass)[0], expected, 0, 0.1));
    copy_by_name(with_our_names(find_names("gpt2", "gpt"),
                                {"gpt", kLayers + 2, kContext}, file),
                 block.parameters(), "file");
    EXPECT_TRUE(
        at::allclose(block.forward({tokens}, pass)[0], expected, 0, 1e-5));
  }
}

/// The real program, with a gpt for texts of five letters.
class PublicNamesOfFiles : public Program {
 protected:
  PublicNamesOfFiles() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "abcde"[i * i % 7 % kVocabulary];
    write("text.txt", text + "abcde");
    write("config.toml",
          "turns = 2\nbatch_size = 4\nthreads = 1\nblocks = 2\n"
          "evaluate_every = 0\n"
          "data = {name = 'text', file = 'text.txt', context = 6}\n"
          "model = {name = 'gpt', layers = 3, width = 8, heads = 2, "
          "tied = true}\n"
          "optimizer = {name = 'sgd', lr = 0.0}\n");
  }

  Outcome train(const std::string& weights, const std::string& more = "") {
    return sluice("run " + path("config.toml") + " initial_weights=" + weights +
                  " --overwrite --dir " + path("run") + " " + more);
  }

  std::map<std::string, Tensor> exported(const std::string& names) {
    const Outcome outcome = sluice("export " + path("run") + " --names " +
                                   names + " --out " + path("out.safetensors"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    const NamedTensors file = read_safetensors(path("out.safetensors"));
    return {file.begin(), file.end()};
  }

  /// Whether what was exported is what the file has.
  bool is_exported(const NamedTensors& file) {
    const std::map<std::string, Tensor> found = exported("gpt2");
    std::size_t equal = 0;
    for (const auto& [name, tensor] : file) {
      if (name.ends_with(".attn.bias")) continue;
      const Tensor wanted =
          name == "wpe.weight" ? tensor.slice(0, 0, kContext) : tensor;
      if (!found.contains(name) || !at::equal(found.at(name), wanted))
        return false;
      ++equal;
    }
    return equal == found.size();
  }
};

TEST_F(PublicNamesOfFiles, StartARunInBlocksAndComeBack) {
  const NamedTensors file = gpt2_file();
  write_safetensors(path("gpt2.safetensors"), file);
  for (const char* engine : {"virtual", "processes"}) {
    const std::string with = std::string("engine=") + engine;
    const Outcome still = train(path("gpt2.safetensors"), with);
    ASSERT_EQ(still.status, 0) << still.text;
    EXPECT_TRUE(is_exported(file));
    ASSERT_EQ(
        train(path("gpt2.safetensors"), with + " optimizer.lr=0.1").status, 0);
    EXPECT_FALSE(is_exported(file));
  }
}

TEST_F(PublicNamesOfFiles, MayHaveAPrefixAndLieInParts) {
  const NamedTensors whole = gpt2_file();
  const NamedTensors file = gpt2_file("transformer.");
  const auto middle = file.begin() + 11;
  std::string index = R"({"metadata": {}, "weight_map": {)";
  write_safetensors(path("a.safetensors"), {file.begin(), middle});
  write_safetensors(path("b.safetensors"), {middle, file.end()});
  for (std::size_t i = 0; i < file.size(); ++i)
    index += (i == 0 ? "\"" : ", \"") + file[i].first + "\": \"" +
             (i < 11 ? "a" : "b") + ".safetensors\"";
  write("model.safetensors.index.json", index + "}}");
  ASSERT_EQ(train(path("model.safetensors.index.json")).status, 0);
  EXPECT_TRUE(is_exported(whole));
  // The folder.
  ASSERT_EQ(train(folder_).status, 0);
  EXPECT_TRUE(is_exported(whole));

  std::filesystem::rename(path("b.safetensors"), path("c.safetensors"));
  const Outcome missing = train(folder_);
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.text, HasSubstr("b.safetensors, which isn't there"));
}

TEST_F(PublicNamesOfFiles, ThatNobodyGivesAreRefused) {
  write_safetensors(path("x.safetensors"), {{"foo.weight", at::ones({2})}});
  const Outcome unknown = train(path("x.safetensors"));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.text, HasSubstr("'foo.weight'"));
  EXPECT_THAT(unknown.text, HasSubstr("gpt2 ('wte.weight')"));

  NamedTensors file = gpt2_file();
  file.erase(file.begin() + 4);
  write_safetensors(path("x.safetensors"), file);
  const Outcome part = train(path("x.safetensors"));
  EXPECT_EQ(part.status, 2);
  EXPECT_THAT(part.text, HasSubstr("by the names of gpt2: has no tensor"));

  ASSERT_EQ(
      sluice("run " + path("config.toml") + " --overwrite --dir " + path("run"))
          .status,
      0);
  const Outcome llama = sluice("export " + path("run") + " --names llama");
  EXPECT_EQ(llama.status, 2);
  EXPECT_THAT(llama.text, HasSubstr("a gpt has the names gpt2"));
}

TEST_F(PublicNamesOfFiles, AnIndexNamesFilesBesideItOnly) {
  const auto read = [&](const std::string& index) {
    return [=, this] { read_shards(write("x.safetensors.index.json", index)); };
  };
  write_safetensors(path("a.safetensors"), {{"a", at::ones({1})}});
  EXPECT_THAT(read(R"({"weight_map": {"a": "../a.safetensors"}})"),
              ThrowsMessage<UserError>(HasSubstr("isn't beside it")));
  EXPECT_THAT(read(R"({"weight_map": {"b": "a.safetensors"}})"),
              ThrowsMessage<UserError>(HasSubstr("has no tensor 'b'")));
  EXPECT_THAT(read(R"({"weight_map": 3})"),
              ThrowsMessage<UserError>(HasSubstr("no index")));
  EXPECT_THAT(read(R"({"weight_map": {}})"),
              ThrowsMessage<UserError>(HasSubstr("names no tensor")));
  EXPECT_THAT(read("{"), ThrowsMessage<UserError>(HasSubstr("no index")));
  EXPECT_EQ(read_shards(write("x.safetensors.index.json",
                              R"({"weight_map": {"a": "a.safetensors"}})"))
                .size(),
            1);
}

}  // namespace sluice::public_names_test
