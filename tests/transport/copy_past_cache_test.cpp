#include "transport/shared/copy_past_cache.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::copy_past_cache_test {

TEST(CopyPastCache, CopiesWhatItIsToldAtAnyAlignment) {
  std::vector<unsigned char> from(300);
  std::iota(from.begin(), from.end(), 1);
  for (std::size_t source = 0; source < 3; ++source)
    for (std::size_t target = 0; target < 65; ++target)
      for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 200}) {
        std::vector<unsigned char> to(300, 0);
        copy_past_cache(reinterpret_cast<std::byte*>(to.data()) + target,
                        reinterpret_cast<std::byte*>(from.data()) + source,
                        bytes);
        std::vector<unsigned char> expected(300, 0);
        for (std::size_t i = 0; i < bytes; ++i)
          expected[target + i] = from[source + i];
        ASSERT_EQ(to, expected) << source << ' ' << target << ' ' << bytes;
      }
}

}  // namespace sluice::copy_past_cache_test
