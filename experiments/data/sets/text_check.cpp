#include "experiments/data/sets/text_check.h"

#include "lib/base/error.h"

namespace sluice {

void check_is_text(const std::string& path, std::int64_t bytes,
                   std::int64_t zeros) {
  constexpr std::int64_t kOneIn = 10;
  if (zeros * kOneIn < bytes || bytes == 0) return;
  throw UserError(
      "{}: {:.0f} % of its bytes are 0, so it is no text of bytes: UTF-16, or "
      "numbers? Convert it (iconv -f UTF-16 -t UTF-8), or read it with "
      "data.name = \"tokens\"",
      path, 100 * static_cast<double>(zeros) / static_cast<double>(bytes));
}

}  // namespace sluice
