#pragma once

#include <string>

namespace sluice::report {

/// A value of an axis (StudyCell::values) for people: of a table the choice
/// that it makes and the options, "local_loss, head=predsim"; others as they
/// are.
std::string readable_value(const std::string& value);

}  // namespace sluice::report
