#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "transport/wire/secret.h"

namespace sluice {

/// What a launcher lets processes know that others start: ranks on its host,
/// replicas that join its run.
struct Note {
  std::string address = {};  ///< of its rendezvous
  Secret secret = {};
  std::string folder = {};  ///< of the run; absolute
  std::string resume = {};
  std::string faults = {};
  int replica = 0;  ///< that one which comes becomes; 0: it is a rank
  /// Reason why there will be no run, in place of all of that; empty: there
  /// will.
  std::string refusal = {};
};

/// A note: a file that only this user can read, while this object lives.
class PostedNote {
 public:
  /// Replaces what was left there, if it was ours. Throws UserError.
  PostedNote(std::string path, const Note& note);
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

/// Path of the note of a job, as Rank has it: in the system's temporary folder.
std::string path_of_note(const std::string& job);

/// Takes that note of another process, which must still live, away, so that one
/// process finds it. Nothing: there is none. Throws UserError for another
/// user's.
std::optional<Note> take_note(const std::string& path);

/// Waits for that note of another process, which must still live. Throws
/// UserError when it isn't there in time, or another user's, or says that there
/// will be no run.
Note wait_for_note(const std::string& job, std::chrono::milliseconds patience);

}  // namespace sluice
