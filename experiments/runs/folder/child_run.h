#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace sluice {

/// Cores and GPUs of this machine that a run may use.
struct MachineShare {
  std::vector<int> cores = {};  ///< empty: all
  std::string gpu = {};         ///< for CUDA_VISIBLE_DEVICES; empty: as it is
};

/// A memory file: text that a child reads, or has written.
class MemoryFile {
 public:
  /// A file in memory with that text. Throws UserError when there can be none.
  explicit MemoryFile(const std::string& text = "");
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::string text() const;

 private:
  int descriptor_ = -1;
};

/// End of a child process.
struct ChildEnd {
  int status = 0;          ///< its exit status; -1: a signal ended it
  std::string error = {};  ///< the line on stderr that says why
  int signal = 0;
  std::string signal_text = {};  ///< "9 (Killed)", or empty
};

/// A run in a process of its own, in a process group of its own: Ctrl-C reaches
/// the launcher alone, which decides what it means. Killed with this object.
class ChildRun {
 public:
  /// Starts argv[0]; `input` is what it reads on its standard input. To be
  /// called by a thread that lives as long as the child: the child dies with
  /// that thread. Throws UserError when it can't start.
  ChildRun(const std::vector<std::string>& argv, const std::string& input,
           const MachineShare& share);
  ~ChildRun();
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

  /// End of the child; nothing while it runs.
  std::optional<ChildEnd> poll();
  /// Asks it to stop, with a checkpoint (SIGTERM); only the first call counts,
  /// for a second signal would mean at once.
  void stop();

 private:
  ChildEnd end_of(int status) const;

  MemoryFile input_;
  MemoryFile errors_;
  pid_t pid_ = -1;
  bool is_told_ = false;  // to stop
  std::optional<ChildEnd> end_;
};

/// Pointers into `texts`, which must outlive them, with a null pointer at the
/// end: the form in which exec takes arguments and environment.
std::vector<char*> pointers_to(const std::vector<std::string>& texts);

/// The cores that this process may use.
std::vector<int> usable_cores();

/// What each of `slots` runs at once gets: the cores in equal parts, one after
/// another where there are fewer than slots.
std::vector<std::vector<int>> divided(const std::vector<int>& cores, int slots);

}  // namespace sluice
