#include "transport/meeting/whereabouts.h"

#include <utility>

#include "lib/base/error.h"
#include "transport/links/hello.h"

namespace sluice {

std::vector<std::string> to_texts(const Whereabouts& its, bool has_marks) {
  if (!has_marks) return {its.address};
  return {its.address, its.near, its.mark};
}

std::vector<Whereabouts> whereabouts_from(const std::vector<std::string>& texts,
                                          std::size_t count, bool has_marks,
                                          std::uint32_t said_by) {
  const std::size_t each = has_marks ? 3 : 1;
  if (texts.size() != count * each)
    throw LinkError("{} gave {} addresses instead of {} for {} block{}",
                    block_name(said_by), texts.size(), count * each, count,
                    count == 1 ? "" : "s");
  std::vector<Whereabouts> found;
  for (std::size_t i = 0; i < texts.size(); i += each) {
    Whereabouts its{.address = texts[i]};
    if (has_marks) {
      its.near = texts[i + 1];
      its.mark = texts[i + 2];
    }
    found.push_back(std::move(its));
  }
  return found;
}

}  // namespace sluice
