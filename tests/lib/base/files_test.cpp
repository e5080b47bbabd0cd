#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/base/error.h"
#include "lib/base/files/output_file.h"
#include "lib/base/files/read_file.h"

namespace sluice::files_test {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string refusal_of(const std::string& path) const {
    try {
      read_file(path, 10);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
};

/// Whether a descriptor of this process, of that file, is there for children.
bool is_inherited(const std::string& path) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) != path) continue;
    const int number = std::stoi(entry.path().filename().string());
    return (::fcntl(number, F_GETFD) & FD_CLOEXEC) == 0;
  }
  ADD_FAILURE() << path << " is not open";
  return true;
}

// Issue 18, item 13: a fifo as config waited for ever.
TEST_F(Files, AreReadWhenTheyAreRegularOnly) {
  std::ofstream(path("text")) << "0123456789";
  EXPECT_EQ(read_file(path("text"), 10), "0123456789");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_NE(refusal_of(path("fifo")).find("it is a fifo"), std::string::npos);
  EXPECT_NE(refusal_of("/dev/zero").find("it is a device"), std::string::npos);
  EXPECT_NE(refusal_of(folder_).find("it is a directory"), std::string::npos);
  EXPECT_NE(refusal_of(path("none")).find("No such file"), std::string::npos);
  std::ofstream(path("text")) << "0123456789a";
  EXPECT_NE(refusal_of(path("text")).find("more than 10 bytes"),
            std::string::npos);
}

// Issue 18, item 13: descriptors without CLOEXEC.
TEST_F(Files, ThatAreWrittenAreNotInherited) {
  const std::ofstream plain(path("plain"));
  EXPECT_TRUE(is_inherited(path("plain")));  // the test can see it
  const OutputFile file(path("file"));
  EXPECT_FALSE(is_inherited(path("file")));
}

TEST_F(Files, AreWrittenAnewOrGoOn) {
  OutputFile(path("text")) << "first";
  OutputFile(path("text")) << "one";
  OutputFile(path("text"), std::ios::app) << ", two" << std::flush;
  EXPECT_EQ(read_file(path("text"), 10), "one, two");
  OutputFile nowhere(path("none/text"));
  EXPECT_FALSE(nowhere);
  nowhere << "lost";
  EXPECT_FALSE(nowhere);
  OutputFile full("/dev/full");
  EXPECT_TRUE(full);
  full << "text" << std::flush;
  EXPECT_FALSE(full);
}

}  // namespace sluice::files_test
