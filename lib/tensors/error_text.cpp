#include "lib/tensors/error_text.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace sluice {

std::string text_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace sluice
