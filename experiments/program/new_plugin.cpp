#include "experiments/program/new_plugin.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/files/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A file of the folder. In both, @NAME@ is the plug-in's name, and @Name@ the
/// same with a capital.
struct TemplateFile {
  std::string_view name;
  std::string_view text;
};

constexpr std::string_view kPluginLists =
    R"PLUGIN(cmake_minimum_required(VERSION 3.25)
project(@NAME@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# cmake -B build -DCMAKE_PREFIX_PATH=FOLDER && cmake --build build
# where FOLDER is what Sluice was installed in: cmake --install ... --prefix FOLDER
find_package(Sluice 0.9 REQUIRED)

# The library that the config names. What it uses of Sluice is the program's.
add_library(@NAME@ MODULE @NAME@.cpp)
target_link_libraries(@NAME@ PRIVATE sluice::plugin)

# The test is a program with all of Sluice in it: ctest --test-dir build
find_package(GTest REQUIRED)
enable_testing()
add_executable(@NAME@_test @NAME@_test.cpp @NAME@.cpp)
target_link_libraries(@NAME@_test PRIVATE sluice::sluice GTest::gtest_main)
add_test(NAME @NAME@ COMMAND @NAME@_test)
)PLUGIN";

/// Source of the plug-in on docs/plugins.md and in tests/plugins.
constexpr std::string_view kPluginSource =
    R"PLUGIN(// A plug-in for Sluice: a data set and a head.
#include <torch/nn/modules/linear.h>

#include "experiments/plugins/plugin.h"
#include "lib/base/error.h"

namespace {
using namespace sluice;

/// Points in the plane; the class says in which two quadrants one lies.
struct Points final : Samples {
  Points(std::uint64_t seed, std::int64_t size) : seed_(seed), size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t position(std::int64_t i, EpochKey) const override { return i; }
  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    const at::Tensor inputs = at::empty({std::ssize(indices), 2}, at::kFloat);
    auto* next = inputs.mutable_data_ptr<float>();
    for (const std::int64_t i : indices) {
      KeyedRandom random(random_key({seed_, static_cast<std::uint64_t>(i)}));
      for (int k = 0; k < 2; ++k)
        *next++ = static_cast<float>(random.uniform(-1, 1));
    }
    return {.inputs = inputs, .labels = inputs.prod(1).gt(0).to(at::kLong)};
  }
  std::uint64_t seed_;
  std::int64_t size_;
};

MakeDataSet quadrants(Fields&) {
  const auto split = [](std::uint64_t seed, std::int64_t size) {
    return Split(size, [=] { return std::make_shared<Points>(seed, size); });
  };
  return [=](const std::string&) -> DataSet {
    return {.sample = {{2}, 2}, .train = split(1, 640), .test = split(2, 200)};
  };
}

/// A linear classifier, with logits that are divided by a number.
struct SoftHead final : Head {
  SoftHead(const BoundarySite& site, double divisor) : divisor_(divisor) {
    loss_ = site.loss;
    linear_ = torch::nn::Linear(site.features[0], site.classes);
    register_module("linear", linear_);
    initialise_parameters(*this, head_key(site, "@NAME@_head"));
  }
  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor logits = linear_(features[0]) / divisor_;
    return {loss_(logits, beside.labels), logits};
  }
  double divisor_;
  Loss loss_;
  torch::nn::Linear linear_ = nullptr;
};

MakeHead soft_head(Fields& options) {
  double divisor = 2;
  options.key("divisor", divisor, {.text = "of the logits", .min = 0.01});
  return [=](const BoundarySite& site) {
    if (site.features.size() != 1)
      throw UserError("@NAME@_head takes features [C], not maps or texts");
    return std::make_shared<SoftHead>(site, divisor);
  };
}
}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.data_set({"@NAME@_data", "points, by their quadrant", quadrants});
  plugin.head({"@NAME@_head", "a linear classifier, less sure", soft_head});
}
)PLUGIN";

constexpr std::string_view kPluginTest = R"PLUGIN(#include <vector>

#include <gtest/gtest.h>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

class @Name@Test : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Plugin plugin;
    sluice_register(plugin);
    plugin.add_to_tables();
  }
};

TEST_F(@Name@Test, SamplesFollowFromTheirIndicesAlone) {
  Fields options(nullptr, "data");
  const auto set = find_row(data_sets(), "@NAME@_data", "data set").make(options);
  const auto samples = set("").train.samples();
  const std::vector<std::int64_t> two = {3, 5};
  const std::vector<std::int64_t> last = {5};
  const at::Tensor inputs = samples->batch(two, {}).inputs;
  EXPECT_TRUE(at::equal(inputs[1], samples->batch(last, {}).inputs[0]));
  EXPECT_FALSE(at::equal(inputs[0], inputs[1]));
}

TEST_F(@Name@Test, TheHeadSendsAGradientToTheFeatures) {
  Fields none(nullptr, "loss");
  Fields options(nullptr, "head");
  const BoundarySite site = {
      .features = {8},
      .classes = 2,
      .loss = find_row(losses(), "cross_entropy", "loss").make(none).training};
  const auto head = find_row(heads(), "@NAME@_head", "head").make(options)(site);
  const at::Tensor features = at::ones({4, 8}).requires_grad_();
  const at::Tensor labels = at::arange(4, at::kLong).remainder(2);
  head->forward({features}, {.labels = labels}).loss.backward();
  EXPECT_GT(features.grad().abs().sum().item<double>(), 0);
}

}  // namespace
)PLUGIN";

constexpr std::string_view kPluginConfig =
    R"PLUGIN(# sluice run @NAME@.toml, once the plug-in is built: two blocks, of which the
# lower one learns from the plug-in's head.
plugins = ["build/lib@NAME@.so"]
name = "@NAME@"
blocks = 2
epochs = 5
batch_size = 32

[data]
name = "@NAME@_data"

[model]
name = "mlp"
hidden = [32, 32]

[boundary]
policy = "local_loss"
head = {name = "@NAME@_head"}

[optimizer]
lr = 0.1
momentum = 0.9
)PLUGIN";

constexpr std::array kTemplateFiles = {
    TemplateFile{"CMakeLists.txt", kPluginLists},
    TemplateFile{"@NAME@.cpp", kPluginSource},
    TemplateFile{"@NAME@_test.cpp", kPluginTest},
    TemplateFile{"@NAME@.toml", kPluginConfig},
};

std::string replaced(std::string text, std::string_view placeholder,
                     std::string_view value) {
  for (std::size_t at = text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + value.size()))
    text.replace(at, placeholder.size(), value);
  return text;
}

std::string filled_in(std::string_view text, const std::string& name) {
  std::string capital = name;
  capital.front() = static_cast<char>(capital.front() - 'a' + 'A');
  return replaced(replaced(std::string(text), "@NAME@", name), "@Name@",
                  capital);
}

void check_plugin_name(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool is_good =
      !name.empty() && is_letter(name.front()) &&
      std::all_of(name.begin(), name.end(), [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
      });
  if (!is_good)
    throw UserError(
        "'{}' is no name for a plug-in: it begins with a letter, and has a to "
        "z, 0 to 9 and _",
        name);
  for (const std::string_view target :
       {"all", "clean", "edit_cache", "help", "install", "package",
        "rebuild_cache", "test"})
    if (name == target)
      throw UserError(
          "'{}' is no name for a plug-in: CMake has a target of that name",
          name);
}

}  // namespace

void new_plugin_command(const std::string& name) {
  check_plugin_name(name);
  std::error_code error;
  if (!fs::create_directory(name, error)) {
    if (!error)
      throw UserError(
          "{}: is there already, and nothing is overwritten: give another name",
          name);
    throw UserError("{}: can't be made: {}", name, error.message());
  }
  for (const TemplateFile& file : kTemplateFiles)
    write_file_atomically(
        fmt::format("{}/{}", name, filled_in(file.name, name)),
        [&](std::ostream& out) { out << filled_in(file.text, name); });
  fmt::print(
      "{0}/: a head, a data set, a test and a config. Then:\n"
      "  cd {0} && cmake -B build -DCMAKE_PREFIX_PATH=FOLDER  # where Sluice "
      "is "
      "installed\n"
      "  cmake --build build && ctest --test-dir build\n"
      "  sluice run {0}.toml\n",
      name);
}

}  // namespace sluice
