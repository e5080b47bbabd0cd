#pragma once

#include <string>
#include <vector>

namespace sluice::report {

/// A part of the page with a heading of its own.
struct PageSection {
  std::string anchor = {};  ///< "curves"
  std::string title = {};
  std::string html = {};  ///< empty: the section is left out
};

/// The whole page: one file that asks for no other, light or dark as the reader
/// likes it. On a phone charts that belong together lie side by side, to be
/// swiped, and long sections are folded.
std::string page_of(const std::string& title, const std::string& lead,
                    const std::vector<PageSection>& sections);

}  // namespace sluice::report
