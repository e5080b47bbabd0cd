// Downloads from a server on this machine, of files that the tests make.
#include "experiments/data/fetch/fetch.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "experiments/data/data_sets.h"
#include "experiments/data/fetch/unpack.h"
#include "experiments/data/files/sha256.h"
#include "lib/base/random.h"
#include "tests/experiments/data/data_file_server.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_fetch_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using testing::Not;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What a command prints, or throws when it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 256> buffer = {};
  while (std::fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
  if (::pclose(pipe) != 0) throw UserError("failed: {}", command);
  return text;
}

/// By coreutils, not by us.
std::string sum_of(const std::string& path) {
  return output_of("sha256sum '" + path + "'").substr(0, 64);
}

class Fetch : public DataFolder {
 protected:
  static constexpr std::int64_t kBytes = 300'000;

  Fetch() {
    KeyedRandom random(1);
    for (std::int64_t i = 0; i < kBytes; ++i)
      bytes_.push_back(static_cast<std::uint8_t>(random.below(256)));
    sum_ = sum_of(write("served/a.bin", bytes_));
    server_ = std::make_unique<FileServer>(path("served"), path("requests"));
  }

  /// One file, a.bin.
  PublishedSet set() const {
    return {.name = "made_up",
            .url = "http://127.0.0.1:1/nowhere",
            .folder = "set",
            .files = {{"a.bin", kBytes, sum_}}};
  }
  FetchOptions options(const std::string& behaviour) {
    FetchOptions options = {.root = path("root"),
                            .url = server_->url(behaviour)};
    options.say = [this](const std::string& line) { said_ += line + "\n"; };
    return options;
  }
  void fetch_from(const std::string& behaviour) {
    fetch(set(), options(behaviour));
  }
  std::string error_from(const std::string& behaviour) {
    return error_of([&] { fetch_from(behaviour); });
  }
  std::string file() const { return path("root/set/a.bin"); }
  std::string partial() const { return file() + ".partial"; }
  void write_partial(std::int64_t bytes) const {
    write("root/set/a.bin.partial", {bytes_.begin(), bytes_.begin() + bytes});
  }
  bool is_complete() const {
    return slurp(file()) == slurp(path("served/a.bin")) &&
           !fs::exists(partial());
  }
  std::string requests() const { return slurp(path("requests")); }

  Bytes bytes_;
  std::string sum_;
  std::string said_;
  std::unique_ptr<FileServer> server_;
};

TEST_F(Fetch, DownloadsAFileAndGivesItItsName) {
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(requests(), "/ranges/a.bin \n");
}

TEST_F(Fetch, LeavesAFileAloneThatIsThere) {
  write("root/set/a.bin", {1, 2, 3});
  fetch_from("ranges");
  EXPECT_EQ(slurp(file()), "\x01\x02\x03");
  EXPECT_EQ(requests(), "");
  EXPECT_THAT(said_, HasSubstr("is there"));
}

TEST_F(Fetch, DoesNotNeedAGzippedFileThatIsThereUnpacked) {
  write("root/set/a.bin", {1, 2, 3});
  PublishedSet set = this->set();
  set.files[0].name = "a.bin.gz";
  fetch(set, options("ranges"));
  EXPECT_EQ(requests(), "");
}

TEST_F(Fetch, AsksOnlyForTheRestOfAPartialFile) {
  write_partial(100'000);
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(requests(), "/ranges/a.bin bytes=100000-\n");
}

TEST_F(Fetch, StartsAgainWhereTheServerKnowsNoRanges) {
  write_partial(100'000);
  fetch_from("no-ranges");
  EXPECT_TRUE(is_complete());
}

TEST_F(Fetch, AsksForNothingWhenThePartialFileIsWhole) {
  write_partial(kBytes);
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(requests(), "");
}

TEST_F(Fetch, KeepsWhatCameBeforeTheConnectionBrokeAndGoesOnFromThere) {
  EXPECT_THAT(error_from("cut"),
              AllOf(HasSubstr("150000 of 300000 bytes are kept"),
                    Not(HasSubstr("\n"))));
  EXPECT_FALSE(fs::exists(file()));
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_THAT(requests(), HasSubstr("bytes=150000-"));
}

TEST_F(Fetch, StartsAgainWhenTheBeginningWasOfAnotherFile) {
  write("root/set/a.bin.partial", Bytes(1000, 7));
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_EQ(requests(), "/ranges/a.bin bytes=1000-\n/ranges/a.bin \n");
}

TEST_F(Fetch, StartsAgainWhenThereIsMoreThanTheFileHas) {
  write("root/set/a.bin.partial", Bytes(kBytes + 1, 7));
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
}

TEST_F(Fetch, AWrongSumIsNamedWithTheRightOneAndNothingIsKept) {
  PublishedSet set = this->set();
  const std::string other(64, 'a');
  set.files[0].sha256 = other;
  EXPECT_THAT(error_of([&] { fetch(set, options("ranges")); }),
              AllOf(HasSubstr(sum_), HasSubstr(other), HasSubstr("/a.bin"),
                    Not(HasSubstr("\n"))));
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(Fetch, RefusesAFileThatIsLongerThanPublished) {
  EXPECT_THAT(error_from("longer"),
              AllOf(HasSubstr("longer"), HasSubstr("300000 bytes")));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Fetch, SaysThatTheServerHasNoSuchFile) {
  fs::remove(path("served/a.bin"));
  EXPECT_THAT(error_from("ranges"),
              AllOf(HasSubstr("/ranges/a.bin"), HasSubstr("404"),
                    Not(HasSubstr("\n"))));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Fetch, A404LosesNothingOfAPartialFile) {
  write_partial(1000);
  fs::remove(path("served/a.bin"));
  error_from("ranges");
  EXPECT_EQ(fs::file_size(partial()), 1000U);
}

TEST_F(Fetch, SaysThatThereIsNoServer) {
  // No server listens at port 1, where the set says that it is published.
  FetchOptions options = this->options("");
  options.url = "";
  EXPECT_THAT(error_of([&] { fetch(set(), options); }),
              AllOf(HasSubstr("http://127.0.0.1:1/nowhere/a.bin"),
                    HasSubstr("connect"), Not(HasSubstr("\n"))));
  EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(Fetch, TakesHttpOnly) {
  FetchOptions options = this->options("");
  options.url = "file://" + path("served");
  EXPECT_THAT(error_of([&] { fetch(set(), options); }), HasSubstr("rotocol"));
}

/// Files can't grow beyond so many bytes, as on a disk that is full.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST_F(Fetch, KeepsWhatFitsOntoAFullDisk) {
  {
    const FileLimit limit(100'000);
    EXPECT_THAT(error_from("ranges"),
                AllOf(HasSubstr("a.bin.partial"), HasSubstr("can't be written"),
                      HasSubstr("100000 of 300000"), Not(HasSubstr("\n"))));
  }
  fetch_from("ranges");
  EXPECT_TRUE(is_complete());
  EXPECT_THAT(requests(), HasSubstr("bytes=100000-"));
}

TEST_F(Fetch, ReportsItsProgress) {
  std::vector<std::int64_t> here;
  FetchOptions options = this->options("ranges");
  options.progress = [&](const std::string& name, std::int64_t bytes,
                         std::int64_t all) {
    EXPECT_EQ(name, "set/a.bin");
    EXPECT_EQ(all, kBytes);
    here.push_back(bytes);
  };
  fetch(set(), options);
  EXPECT_TRUE(std::is_sorted(here.begin(), here.end()));
  EXPECT_EQ(here.back(), kBytes);
}

class FetchArchive : public Fetch {
 protected:
  FetchArchive() {
    write("packed/set/a.bin", {1, 2, 3});
    write("packed/set/b.bin", {4, 5});
    write("packed/set/readme.html", {6});
    pack("-C packed set");
  }

  /// served/set.tar.gz, by the arguments of tar.
  void pack(const std::string& arguments) {
    output_of("cd '" + root() + "' && tar -czf served/set.tar.gz " + arguments);
    archive_sum_ = sum_of(archive());
  }
  std::string archive() const { return path("served/set.tar.gz"); }
  PublishedSet set() const {
    return {.name = "made_up",
            .folder = "set",
            .files = {{"set.tar.gz",
                       static_cast<std::int64_t>(fs::file_size(archive())),
                       archive_sum_}},
            .unpacked = {"a.bin", "b.bin"}};
  }
  std::string error() {
    return error_of([&] { fetch(set(), options("ranges")); });
  }
  /// What lies in the folder of data files, below it too.
  std::vector<std::string> found() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path("root")))
      if (!entry.is_directory())
        names.push_back(fs::relative(entry.path(), path("root")));
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string archive_sum_;
};

TEST_F(FetchArchive, UnpacksWhatIsReadAndLeavesNothingElse) {
  fetch(set(), options("ranges"));
  EXPECT_THAT(found(), ElementsAre("set/a.bin", "set/b.bin"));
  EXPECT_EQ(slurp(path("root/set/a.bin")), "\x01\x02\x03");
}

TEST_F(FetchArchive, IsThereWhenItsFilesAre) {
  write("root/set/a.bin", {});
  write("root/set/b.bin", {});
  fetch(set(), options("ranges"));
  EXPECT_EQ(requests(), "");
}

TEST_F(FetchArchive, BringsAMissingFileAndLeavesTheOthersAlone) {
  write("root/set/a.bin", {9});
  fetch(set(), options("ranges"));
  EXPECT_EQ(slurp(path("root/set/a.bin")), "\x09");
  EXPECT_EQ(slurp(path("root/set/b.bin")), "\x04\x05");
}

TEST_F(FetchArchive, WithoutAFileThatIsReadIsAnError) {
  pack("-C packed set/a.bin");
  EXPECT_THAT(error(), HasSubstr("has no file set/b.bin"));
  EXPECT_THAT(found(), ElementsAre("set.tar.gz.partial"));
}

TEST_F(FetchArchive, MustNotLeaveItsFolder) {
  pack("-P --transform 's|^set/b|../../b|' -C packed set");
  EXPECT_THAT(error(), AllOf(HasSubstr("../../b.bin"), HasSubstr("outside")));
  EXPECT_THAT(found(), ElementsAre("set.tar.gz.partial"));
  EXPECT_FALSE(fs::exists(path("b.bin")));
}

TEST_F(FetchArchive, MustNotHaveAbsolutePaths) {
  pack("-P '" + path("packed/set/a.bin") + "'");
  EXPECT_THAT(error(), HasSubstr("outside"));
}

TEST_F(FetchArchive, MustNotHaveLinks) {
  fs::create_symlink("/etc", path("packed/set/link"));
  pack("-C packed set");
  EXPECT_THAT(error(), AllOf(HasSubstr("set/link"), HasSubstr("neither")));
  EXPECT_THAT(found(), ElementsAre("set.tar.gz.partial"));
}

TEST_F(FetchArchive, MustNotBeDamaged) {
  write("packed/set/a.bin", bytes_);
  pack("-C packed set");
  fs::resize_file(archive(), fs::file_size(archive()) - 1000);
  archive_sum_ = sum_of(archive());
  EXPECT_THAT(error(), HasSubstr("can't be unpacked"));
  EXPECT_THAT(found(), ElementsAre("set.tar.gz.partial"));
}

TEST_F(FetchArchive, ThatDoesNotFitOntoTheDiskLeavesNoHalfFile) {
  write("packed/set/b.bin", Bytes(500'000, 0));
  pack("-C packed set");
  {
    const FileLimit limit(100'000);
    EXPECT_THAT(error(),
                AllOf(HasSubstr("b.bin"), HasSubstr("can't be written")));
  }
  EXPECT_THAT(found(), ElementsAre("set.tar.gz.partial"));
}

TEST(Sha256, IsThatOfTheStandard) {
  const std::string path = testing::TempDir() + "sluice-sha256";
  std::ofstream(path) << "abc";
  // FIPS 180-4's example.
  EXPECT_EQ(sha256_of_file(path),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  fs::remove(path);
}

TEST(Sha256, Sha256OfAMissingFileIsAnError) {
  EXPECT_THAT(error_of([] { sha256_of_file("/nowhere"); }),
              HasSubstr("/nowhere"));
}

TEST(PublishedSets, AreDataSetsWithWholeSums) {
  for (const PublishedSet& set : published_sets()) {
    EXPECT_NO_THROW(find_row(data_sets(), set.name, "data set"));
    for (const PublishedFile& file : set.files) {
      EXPECT_EQ(file.sha256.size(), 64U) << file.name;
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"),
                std::string_view::npos);
      EXPECT_GT(file.bytes, 0);
    }
  }
}

TEST(PublishedSets, LieWhereTheyAreRead) {
  for (const PublishedSet& set : published_sets()) {
    Fields fields(nullptr, "data");
    const MakeDataSet make =
        find_row(data_sets(), set.name, "data set").make(fields);
    EXPECT_THAT(error_of([&] { make("/nowhere"); }),
                HasSubstr(fmt::format("/nowhere/{}/", set.folder)));
  }
}

TEST(PublishedSets, HaveTheSumOfTinyShakespeare) {
  const char* root = std::getenv("SLUICE_DATA");
  const std::string path =
      std::string(root ? root : "") + "/tinyshakespeare/input.txt";
  if (!fs::exists(path)) GTEST_SKIP() << "SLUICE_DATA has no such file";
  const auto sets = published_sets();
  EXPECT_EQ(sets.back().files.front().sha256, sum_of(path));
}

}  // namespace sluice::data_fetch_test
