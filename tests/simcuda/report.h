#pragma once

#include <string>

namespace sluice::simcuda {

/// Keeps the report, or ends the program with it: see collect_reports(). The
/// caller holds the machine's lock.
void report(const std::string& text);

}  // namespace sluice::simcuda
