#pragma once

namespace sluice::report {

/// What a page does beside being read, as JavaScript without any library: a
/// click on an entry of a legend hides what it stands for, charts show values
/// under the pointer and change between linear and logarithmic axes. Without it
/// everything is there all the same. It reads what chart.h writes.
extern const char* const kPageScript;

/// Behind kPageScript: tables are sorted by a click on a head, and filtered. It
/// reads what results_table.h writes.
extern const char* const kTableScript;

/// Behind that: in a narrow window long sections are folded (page.h). It reads
/// what page.cpp and results_table.h write.
extern const char* const kFoldScript;

}  // namespace sluice::report
