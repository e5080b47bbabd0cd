// Whatever a token file holds: tokens below the vocabulary, or a UserError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "experiments/data/files/token_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  constexpr std::int64_t kVocabulary = 300;
  const sluice::FileInMemory file({data, size});
  for (const std::size_t token_bytes : {2, 4}) {
    try {
      const sluice::TokenFile tokens(file.path(), token_bytes);
      if (static_cast<std::size_t>(tokens.size()) * token_bytes != size)
        std::abort();
      if (tokens.size() == 0) continue;
      const std::int64_t largest = tokens.largest();
      std::vector<std::int64_t> all(static_cast<std::size_t>(tokens.size()));
      tokens.read(0, kVocabulary, all);
      for (const std::int64_t token : all)
        if (token < 0 || token >= kVocabulary || token > largest) std::abort();
    } catch (const sluice::UserError&) {
      continue;  // any damage may be refused
    }
  }
  return 0;
}
