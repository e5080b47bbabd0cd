#include "experiments/runs/ranks/note.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/temporary_folder.h"
#include "transport/links/file_descriptor.h"
#include "transport/meeting/host_mark.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::milliseconds kLook(20);

/// Writes the text to a new file beside `path`; mkostemp() gives it mode 0600
/// and a name that was free.
std::string write_beside(const std::string& path, const std::string& text) {
  std::string beside = path + "-XXXXXX";
  const FileDescriptor file(::mkostemp(beside.data(), O_CLOEXEC));
  if (file.get() < 0)
    throw UserError("{}: can't be made: {}", beside, errno_text());
  if (::write(file.get(), text.data(), text.size()) !=
      static_cast<ssize_t>(text.size()))
    throw UserError("{}: can't be written: {}", beside, errno_text());
  return beside;
}

/// The note; nothing where it isn't there: the job may be about to write it.
std::optional<json> read_note(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  if (status.st_uid != ::getuid() || !S_ISREG(status.st_mode) ||
      (status.st_mode & 077U) != 0)
    throw UserError(
        "{}: this should be our note of where processes meet, but another user "
        "owns it or may read it; remove it",
        path);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  json note = json::parse(text, nullptr, false);
  if (note.is_discarded()) return std::nullopt;
  return note;
}

/// Whether the note's process lives, or is on another host; a job that was
/// killed may have left a note.
bool is_alive(const json& note) {
  if (note.value("host", host_mark()) != host_mark()) return true;
  return ::kill(note.at("pid").get<pid_t>(), 0) == 0;
}

Note note_from(const json& note, const std::string& path) {
  if (const std::string refusal = note.at("refusal"); !refusal.empty())
    throw UserError("{}", refusal);
  return {.address = note.at("address"),
          .secret = parse_secret(note.at("secret").get<std::string>(), path),
          .folder = note.at("folder"),
          .resume = note.at("resume"),
          .faults = note.at("faults"),
          .replica = note.value("replica", 0)};
}

}  // namespace

std::string path_of_note(const std::string& job) {
  return fmt::format("{}/sluice-{}-{}", temporary_root(), ::getuid(), job);
}

PostedNote::PostedNote(std::string path, const Note& note)
    : path_(std::move(path)) {
  const json text = {{"pid", ::getpid()},
                     {"host", host_mark()},
                     {"address", note.address},
                     {"secret", note.secret.empty() ? "" : note.secret.text()},
                     {"folder", note.folder},
                     {"resume", note.resume},
                     {"faults", note.faults},
                     {"replica", note.replica},
                     {"refusal", note.refusal}};
  const std::string beside = write_beside(path_, text.dump());
  std::error_code error;
  fs::rename(beside, path_, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(beside, ignored);
  throw UserError("{}: can't be written: {}", path_, error.message());
}

PostedNote::~PostedNote() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

std::string job_of_ended(const std::string& job, int rank) {
  return fmt::format("{}-ended-{}", job, rank);
}

std::string take_refusal(const std::string& job, int rank) {
  const std::string path = path_of_note(job_of_ended(job, rank));
  const auto note = read_note(path);
  if (!note || !is_alive(*note)) return "";
  std::error_code ignored;
  fs::remove(path, ignored);
  return note->at("refusal");
}

std::optional<Note> take_note(const std::string& path) {
  const std::string mine = fmt::format("{}-{}", path, ::getpid());
  std::error_code error;
  fs::rename(path, mine, error);  // of several processes one can
  if (error) return std::nullopt;
  const auto note = read_note(mine);
  fs::remove(mine, error);
  if (!note || !is_alive(*note)) return std::nullopt;
  return note_from(*note, path);
}

Note wait_for_note(const std::string& job, std::chrono::milliseconds patience) {
  const std::string path = path_of_note(job);
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (const auto note = read_note(path); note && is_alive(*note))
      return note_from(*note, path);
    if (std::chrono::steady_clock::now() > until)
      throw UserError(
          "rank 0 has not written {} within {:g} s: did it fail, is it on "
          "another host, or is TMPDIR not the same there?",
          path, std::chrono::duration<double>(patience).count());
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace sluice
