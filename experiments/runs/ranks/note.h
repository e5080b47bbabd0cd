#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "transport/wire/secret.h"

namespace sluice {

/// What rank 0 lets the other ranks on its host know.
struct Note {
  std::string address = {};  ///< of its rendezvous
  Secret secret = {};
  std::string folder = {};  ///< of the run; absolute
  std::string resume = {};
  std::string faults = {};
  /// Reason why there will be no run, in place of all of that; empty: there
  /// will.
  std::string refusal = {};
};

/// A note on this host: a file that only this user can read, in the system's
/// temporary folder, while this object lives.
class PostedNote {
 public:
  /// `job` as Rank has it. Replaces what a job of that name has left, if it was
  /// ours. Throws UserError.
  PostedNote(const std::string& job, const Note& note);
  ~PostedNote();
  PostedNote(const PostedNote&) = delete;
  PostedNote& operator=(const PostedNote&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Name of the note in which a rank above 0 says to rank 0 that it has ended.
std::string job_of_ended(const std::string& job, int rank);
/// Refusal in the rank's note, which is removed; empty: there is none.
std::string take_refusal(const std::string& job, int rank);

/// Path of the job's note.
std::string path_of_note(const std::string& job);

/// Waits for that note of another process, which must still live. Throws
/// UserError when it isn't there in time, or another user's, or says that there
/// will be no run.
Note wait_for_note(const std::string& job, std::chrono::milliseconds patience);

}  // namespace sluice
