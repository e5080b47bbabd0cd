#pragma once

#include <functional>
#include <string>

namespace sluice {

/// Works in a run's folder that somebody may move while the run works there:
/// `work` is called again where it throws a UserError or a filesystem_error and
/// the folder has left its path meanwhile, once a link leads from there to
/// where it is, which may take a moment. `work` must bear a repetition, and
/// make no folder above its own.
///
/// Throws UserError where the folder isn't back after two seconds, or what
/// `work` throws.
void work_while_moved(const std::string& folder,
                      const std::function<void()>& work);

}  // namespace sluice
