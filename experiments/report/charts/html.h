#pragma once

#include <string>
#include <string_view>

namespace sluice::report {

/// `text` for the text or an attribute of HTML, SVG and XML: <, >, &, " and '
/// are escaped; what no XML may have (control characters, bytes that are no
/// UTF-8) becomes U+FFFD.
std::string escaped(std::string_view text);

/// Escapes a name, which may be broken after _ and commas.
std::string breakable(std::string_view text);

/// `name` holding `inside`, which is HTML: <p class="x">...</p>.
std::string element(std::string_view name, std::string_view attributes,
                    std::string_view inside);

}  // namespace sluice::report
