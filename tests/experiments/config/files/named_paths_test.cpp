// One rule for the files that a config names: beside the config, or, of the
// command line, in the current folder; then below data.root. Issue 59, item 6.
#include "experiments/config/files/named_paths.h"

#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::named_paths_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class NamedPaths : public Program {
 protected:
  void SetUp() override {
    for (const char* folder : {"configs/sets", "here", "root"})
      fs::create_directories(path(folder));
  }

  std::string config(const std::string& lines) const {
    return write("configs/c.toml", lines);
  }
  /// What the program prints, started in the folder "here".
  Outcome from_here(const std::string& arguments) const {
    return shell(
        fmt::format("cd {} && {} {}", path("here"), SLUICE_PROGRAM, arguments));
  }
  void write_text(const std::string& name) const {
    write(name, std::string(400, 'a') + std::string(400, 'b'));
  }
};

const std::string kText =
    "batch_size = 2\nmodel = {name = 'gpt', width = 8, heads = 2, layers = 1}\n"
    "loss = {name = 'cross_entropy'}\n"
    "data = {name = 'text', context = 8, file = 'sets/notes.txt'}\n";

TEST_F(NamedPaths, AreLookedForBesideTheConfigWhereverTheProgramIsStarted) {
  config(kText);
  write_text("configs/sets/notes.txt");
  EXPECT_EQ(from_here("plan ../configs/c.toml").status, 0);
  EXPECT_THAT(from_here("config ../configs/c.toml").text,
              HasSubstr("file = \"" + path("configs/sets/notes.txt")));
}

TEST_F(NamedPaths, PathsOfTheCommandLineAreLookedForInTheCurrentFolder) {
  config(kText);
  write_text("configs/sets/notes.txt");
  write_text("here/mine.txt");
  EXPECT_THAT(from_here("config ../configs/c.toml data.file=mine.txt").text,
              HasSubstr("file = \"" + path("here/mine.txt")));
}

TEST_F(NamedPaths, AreLookedForBelowTheRootOfDataAfterThat) {
  config(kText);
  fs::create_directories(path("root/sets"));
  write_text("root/sets/notes.txt");
  EXPECT_EQ(
      from_here("plan ../configs/c.toml data.root=" + path("root")).status, 0);
  const Outcome missing =
      from_here("plan ../configs/c.toml data.root=" + path("here"));
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.text, AllOf(HasSubstr(path("here/sets/notes.txt")),
                                  HasSubstr("beside the config")));
}

TEST_F(NamedPaths, PathsOfAScriptedNetworkNameBothPlacesInTheirError) {
  config("model = {name = 'torchscript', file = 'net.pt'}\n");
  const Outcome missing = from_here("plan ../configs/c.toml");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.text,
              AllOf(HasSubstr("c.toml:1: model.file"),
                    HasSubstr("configs/net.pt"), HasSubstr(path("here"))));
}

TEST_F(NamedPaths, PathsOfAFolderOfImagesAndOfFirstWeightsFollowTheSameRule) {
  write("configs/w.safetensors", "x");
  ConfigNode named = {.value = ConfigNode::Table{}};
  const Origin origin = {.file = config(""), .line = 1};
  named.set("initial_weights", {.value = "w.safetensors", .origin = origin});
  named.set_path("data.name", {.value = "image_folder", .origin = origin});
  named.set_path("data.folder", {.value = "sets", .origin = origin});
  const ConfigNode found = with_named_paths(named);
  EXPECT_EQ(found.find("initial_weights")->literal(),
            toml_string(path("configs/w.safetensors")));
  EXPECT_EQ(found.find("data")->find("folder")->literal(),
            toml_string(path("configs/sets")));
}

// Names of token files are of data.folder, whatever lies beside the config.
TEST_F(NamedPaths, PathsOfTokensInAFolderStayNames) {
  write("configs/train.bin", "x");
  const Origin origin = {.file = config(""), .line = 1};
  for (const auto& [row, literal] :
       {std::pair<std::string, std::string>{"tokens", toml_string("train.bin")},
        {"tensors", toml_string(path("configs/train.bin"))}}) {
    ConfigNode named = {.value = ConfigNode::Table{}};
    named.set_path("data.name", {.value = row, .origin = origin});
    named.set_path("data.train", {.value = "train.bin", .origin = origin});
    EXPECT_EQ(with_named_paths(named).find("data")->find("train")->literal(),
              literal);
  }
}

}  // namespace sluice::named_paths_test
