// Fails each test that passes without an assertion: a loop over nothing, or a
// parameter that it does not want. A test that has nothing to say skips itself.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace sluice::assertions {
namespace {

std::atomic<std::uint64_t>& counted() {
  static std::atomic<std::uint64_t> number = 0;
  return number;
}

class AssertsSomething final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    before_ = counted();
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Passed() && counted() == before_)
      ADD_FAILURE() << "no assertion ran in " << test.test_suite_name() << "."
                    << test.name();
  }

 private:
  std::uint64_t before_ = 0;
};

// In every test program, whatever its main().
[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new AssertsSomething);
  return true;
}();

/// Limits from here on are no rounding.
constexpr double kSmall = 1e-2;

std::FILE* file_of_margins() {
  static std::FILE* const file = [] {
    const char* name = std::getenv("SLUICE_MARGINS");  // NOLINT: no writer
    return name == nullptr ? nullptr : std::fopen(name, "a");
  }();
  return file;
}

}  // namespace

void note_margin(double found, double limit, const char* text) noexcept {
  std::FILE* const file = file_of_margins();
  if (file == nullptr || !(limit > 0 && limit <= kSmall)) return;
  const testing::TestInfo* test =
      testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return;
  std::fprintf(file, "%.4f %g %s.%s %s\n", found / limit, limit,
               test->test_suite_name(), test->name(), text);
  std::fflush(file);
}

int count() noexcept {
  counted().fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace sluice::assertions
