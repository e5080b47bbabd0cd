#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "experiments/api/network_core.h"
#include "python/native/objects.h"

namespace sluice::python {

/// What Python says of a network; text as in NetworkOptions.
struct Said {
  nanobind::list layers;            ///< functions that return nn.Modules
  nanobind::list policies;          ///< as policy_rows() takes them
  nanobind::list replica_policies;  ///< as replica_rows() takes them
  nanobind::object example;
  std::vector<std::int64_t> cuts = {};
  std::vector<std::string> boundaries = {};
  std::string optimizer = {};
  std::string settings = {};
  /// "key=value", on top of them.
  std::vector<std::string> overrides = {};
  RunOfNetwork run = {};
  /// The command line of a worker process; empty: there can be none.
  std::vector<std::string> worker = {};
};

/// A network for Python: its calls let go of Python's lock while they work, and
/// raise sluice.SluiceError, whose cause is what a module has raised. Threads
/// of Python take turns with it. All functions are called with the GIL.
class Network {
 public:
  explicit Network(const Said& said);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// work(core), without the GIL.
  template <class Work>
  auto call(Work&& work) {
    return guarded([&] {
      if (!core_) throw UserError("this Network is closed: make another one");
      return work(*core_);
    });
  }
  /// Ends the blocks. A second call does nothing.
  void close();

 private:
  template <class Work>
  auto guarded(Work&& work) {
    try {
      if (running_python == raised_.get())
        throw UserError(
            "a Network's own layers and policies can't call it: it is in the "
            "middle of a step");
      const nanobind::gil_scoped_release others;
      const std::lock_guard lock(mutex_);
      return work();
    } catch (const std::exception& error) {
      raise(error);
    }
  }
  [[noreturn]] void raise(const std::exception& error);

  const std::shared_ptr<RaisedInPython> raised_ =
      std::make_shared<RaisedInPython>();
  std::mutex mutex_;
  std::unique_ptr<NetworkCore> core_;
};

/// The tensor that an argument of this name is. Throws UserError.
at::Tensor tensor_of(nanobind::handle object, const char* name);

/// Raises sluice.SluiceError of that text, with a cause or None.
[[noreturn]] void raise_error(const std::exception& error,
                              const nanobind::object& cause);

/// A worker process of such a network; returns its exit status.
int work(const Said& said);

}  // namespace sluice::python
