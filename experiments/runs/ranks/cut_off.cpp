#include "experiments/runs/ranks/cut_off.h"

#include <thread>

#include "lib/base/awake_clock.h"
#include "lib/base/error.h"
#include "lib/tensors/error_text.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kLookForNote(5);

constexpr const char* kLauncherIsGone =
    "the launcher, rank 0, is gone: it ended or was killed, or the network to "
    "it broke; what it printed last may say why";

}  // namespace

bool is_cut_off(Receiver& control, std::chrono::milliseconds patience) {
  AwakeClock clock;
  const auto end = clock.now() + patience;
  try {
    while (clock.now() < end)
      if (!control.ready())
        std::this_thread::sleep_for(kLookForNote);
      else if (!control.receive())
        return false;
  } catch (const PeerGoneError&) {
    return true;
  } catch (const LinkError&) {
    // A message of the peer: it is there, and the error is of another kind.
  }
  return false;
}

std::string reason_of_end(const std::exception& error, Receiver& control,
                          std::chrono::milliseconds patience) {
  const bool is_of_link = dynamic_cast<const LinkError*>(&error) != nullptr;
  return is_of_link && is_cut_off(control, patience) ? kLauncherIsGone
                                                     : text_of(error);
}

}  // namespace sluice
