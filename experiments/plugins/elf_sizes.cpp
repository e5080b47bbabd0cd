#include "experiments/plugins/elf_sizes.h"

#include <cstdint>
#include <cstring>

#include <elf.h>
#include <fmt/format.h>

namespace sluice {
namespace {

/// The tables of an ELF file, of which nothing is believed.
class ElfFile {
 public:
  explicit ElfFile(std::string_view bytes) : bytes_(bytes) {}

  std::string why_cut_short() const {
    if (!bytes_.starts_with(ELFMAG) || !has(0, sizeof(Elf64_Ehdr)))
      return "it has no ELF header";
    const auto header = at<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
      return "it is no ELF file of 64 bits";
    std::string reason = in_segments(header);
    return reason.empty() ? in_sections(header) : reason;
  }

 private:
  bool has(std::uint64_t begin, std::uint64_t size) const {
    return begin <= bytes_.size() && size <= bytes_.size() - begin;
  }

  template <class T>
  T at(std::uint64_t begin) const {
    T value = {};
    std::memcpy(&value, bytes_.data() + begin, sizeof value);
    return value;
  }

  std::string too_short_for(std::string_view what, std::uint64_t begin,
                            std::uint64_t size) const {
    return fmt::format(
        "it has {} bytes, and {} of {} bytes is to be at byte "
        "{}",
        bytes_.size(), what, size, begin);
  }

  std::string in_segments(const Elf64_Ehdr& header) const {
    if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr))
      return "it has no program headers";
    const std::uint64_t size = header.e_phnum * sizeof(Elf64_Phdr);
    if (!has(header.e_phoff, size))
      return too_short_for("a table of segments", header.e_phoff, size);
    for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
      const auto segment =
          at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (!has(segment.p_offset, segment.p_filesz))
        return too_short_for("a segment", segment.p_offset, segment.p_filesz);
      if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz)
        return "a segment is larger in the file than in memory";
    }
    return "";
  }

  std::string in_sections(const Elf64_Ehdr& header) const {
    if (header.e_shoff == 0) return "";  // it may have none
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      return "its section headers are of another size";
    const std::uint64_t size = header.e_shnum * sizeof(Elf64_Shdr);
    if (!has(header.e_shoff, size))
      return too_short_for("a table of sections", header.e_shoff, size);
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto section =
          at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
          !has(section.sh_offset, section.sh_size))
        return too_short_for("a section", section.sh_offset, section.sh_size);
    }
    return "";
  }

  std::string_view bytes_;
};

}  // namespace

std::string why_cut_short(std::string_view bytes) {
  return ElfFile(bytes).why_cut_short();
}

}  // namespace sluice
