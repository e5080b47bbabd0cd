#include "transport/wire/bytes.h"

namespace sluice {

// Out of line: inlined, g++ 12 sees overflows here that can't happen.
void ByteWriter::append(const void* begin, std::size_t count) {
  if (count == 0) return;
  const std::size_t old = bytes_.size();
  bytes_.resize(old + count);
  std::memcpy(bytes_.data() + old, begin, count);
}

void ByteWriter::pad_to(std::size_t multiple) {
  bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple);
}

}  // namespace sluice
