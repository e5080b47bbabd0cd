#include "experiments/runs/ranks/note.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice::note_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string test_job() {
  return fmt::format("note-test-{}", ::getpid());
}

Note example() {
  return {.address = "/tmp/x/launcher",
          .secret = make_secret(),
          .folder = "/runs/one",
          .resume = "/runs/one/checkpoints/turn-000004",
          .faults = "kill block 2 @ turn 5"};
}

TEST(Note, ArrivesAsItWasPosted) {
  const Note note = example();
  const PostedNote posted(path_of_note(test_job()), note);
  const Note found = wait_for_note(test_job(), 1s);
  EXPECT_EQ(found.address, note.address);
  EXPECT_EQ(found.secret.text(), note.secret.text());
  EXPECT_EQ(found.folder, note.folder);
  EXPECT_EQ(found.resume, note.resume);
  EXPECT_EQ(found.faults, note.faults);
}

TEST(Note, SaysThatThereWillBeNoRun) {
  const PostedNote posted(path_of_note(test_job()),
                          {.refusal = "the disk is full"});
  EXPECT_THAT([] { wait_for_note(test_job(), 1s); },
              ThrowsMessage<UserError>(HasSubstr("the disk is full")));
}

TEST(Note, NoteOfARankThatHasEndedIsTakenOnce) {
  EXPECT_EQ(take_refusal(test_job(), 2), "");
  const PostedNote posted(path_of_note(job_of_ended(test_job(), 2)),
                          {.refusal = "no such file"});
  EXPECT_EQ(take_refusal(test_job(), 1), "");
  EXPECT_EQ(take_refusal(test_job(), 2), "no such file");
  EXPECT_EQ(take_refusal(test_job(), 2), "");
}

TEST(Note, IsWaitedFor) {
  std::optional<PostedNote> posted;
  std::thread poster([&] {
    std::this_thread::sleep_for(50ms);
    posted.emplace(path_of_note(test_job()), example());
  });
  EXPECT_EQ(wait_for_note(test_job(), 20s).folder, "/runs/one");
  poster.join();
}

TEST(Note, IsGoneWithItsObject) {
  { const PostedNote posted(path_of_note(test_job()), example()); }
  EXPECT_THAT([] { wait_for_note(test_job(), 30ms); },
              ThrowsMessage<UserError>(HasSubstr("within 0.03 s")));
}

TEST(Note, CanBeReadByNobodyElse) {
  const PostedNote posted(path_of_note(test_job()), example());
  struct stat status = {};
  ASSERT_EQ(::stat(posted.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Note, ThatOthersCanReadIsRefused) {
  const PostedNote posted(path_of_note(test_job()), example());
  fs::permissions(posted.path(), fs::perms(0644));
  EXPECT_THAT([] { wait_for_note(test_job(), 1s); },
              ThrowsMessage<UserError>(HasSubstr("remove it")));
}

TEST(Note, NoteOfAProcessThatIsGoneDoesNotCount) {
  const PostedNote posted(path_of_note(test_job()), example());
  std::ofstream(posted.path()) << R"({"pid": 2147483646, "address": "x"})";
  EXPECT_THROW(wait_for_note(test_job(), 30ms), UserError);
}

TEST(Note, IsReplacedByTheNext) {
  const PostedNote first(path_of_note(test_job()), example());
  Note other = example();
  other.folder = "/runs/two";
  const PostedNote second(path_of_note(test_job()), other);
  EXPECT_EQ(wait_for_note(test_job(), 1s).folder, "/runs/two");
}

}  // namespace sluice::note_test
