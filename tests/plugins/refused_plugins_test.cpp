// Shared libraries that are no plug-ins of this program: one line each, and
// nothing of them is called.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::refused_plugins_test {

namespace fs = std::filesystem;

class RefusedPlugin : public RefusedCommand {
 protected:
  static std::string built(const std::string& plugin) {
    return fmt::format("{}/lib{}.so", SLUICE_TEST_PLUGINS, plugin);
  }
  void expect_refused(const std::string& library,
                      const std::string& says) const {
    expect_refusal("list heads --plugin " + library, says);
  }
};

TEST_F(RefusedPlugin, ThatIsMissing) {
  expect_refused("nowhere.so", "build the plug-in, or say where it lies");
}

TEST_F(RefusedPlugin, ThatIsMissingIsNamedWithItsPlaceInTheConfig) {
  fs::create_directory(path("configs"));
  const std::string config =
      write("configs/bad.toml", "seed = 2\nplugins = ['sub/nowhere.so']\n");
  expect_refusal("run " + config,
                 fmt::format("{}:2: plugins: can't read '{}'", config,
                             path("configs/sub/nowhere.so")));
}

TEST_F(RefusedPlugin, ThatIsADirectory) {
  expect_refused(path("work"), "it is a directory");
}

TEST_F(RefusedPlugin, ThatIsAnythingElse) {
  expect_refused(write("text.so", "not a library\n"),
                 "is no plug-in of Sluice");
  expect_refusal("run " + write("number.toml", "plugins = 3\n"),
                 "expected the path of a shared library, found integer 3");
  expect_refusal("run " + write("key.toml", "plugins = [{file = 'a.so'}]\n"),
                 "unknown key 'plugins[0].file'");
}

// Whatever it would run as it is loaded aborts the program.
TEST_F(RefusedPlugin, PluginOfAnotherBuildIsNotEvenLoaded) {
  expect_refused(built("wrong_build"),
                 "was built for Sluice 0.0.1 (headers 0123456789ab), LibTorch "
                 "1.0.0, C++ ABI 1002/1, but this program is Sluice ");
}

TEST_F(RefusedPlugin, ThatIsCutShort) {
  const auto size = fs::file_size(built("mine"));
  const auto expect_refused_at = [&](std::uintmax_t part,
                                     const std::string& says) {
    const std::string cut = path(fmt::format("cut{}.so", part));
    fs::copy_file(built("mine"), cut);
    fs::resize_file(cut, part);
    expect_refused(cut, says);
  };
  for (const auto part : {size - 1, size - 64, size - 1000})
    expect_refused_at(part, fmt::format("is a part of a shared library, or a "
                                        "damaged one: it has {} bytes",
                                        part));
  // Perhaps without its stamp.
  for (const auto part : {size / 2, size / 8, std::uintmax_t{100}})
    expect_refused_at(part, ".so: is ");
}

TEST_F(RefusedPlugin, WhoseHeadersPointBeyondItsEnd) {
  constexpr std::streamoff kSegmentsAt = 32;  // e_phoff
  const std::string damaged = path("damaged.so");
  fs::copy_file(built("mine"), damaged);
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kSegmentsAt);
  file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  file.close();
  expect_refused(damaged, "a table of segments");
}

TEST_F(RefusedPlugin, WithoutAnEntry) {
  expect_refused(built("no_entry"), "has no function sluice_register");
}

TEST_F(RefusedPlugin, ThatLacksASymbol) {
  expect_refused(built("unresolved"), "can't be loaded: undefined symbol");
}

TEST_F(RefusedPlugin, WhoseRegistrationThrows) {
  expect_refused(built("throws"),
                 "failed while it registered its parts: no luck today");
}

TEST_F(RefusedPlugin, WithANameThatIsTaken) {
  expect_refused(built("taken_name"),
                 "registers the head 'linear', and there is one of that name");
}

TEST_F(RefusedPlugin, OtherBuildOfALoadedPluginIsRefused) {
  fs::copy_file(built("mine"), path("other.so"));
  std::ofstream(path("other.so"), std::ios::app) << "another build";
  expect_refusal(fmt::format("list heads --plugin {} --plugin {}",
                             built("mine"), path("other.so")),
                 "registers the data set 'mine_data', and there is one");
}

}  // namespace sluice::refused_plugins_test
