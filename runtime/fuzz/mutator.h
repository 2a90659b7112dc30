#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace torch_fusion::fuzz {

/// The kind of a field; see make_seeds.py, which writes fields.
enum class Kind : uint8_t {
  Scalar,
  Enum,
  Index,
  Offset,
  Length,
  Table,
  Slot,
  Bytes,
};

/// A field's position in a program, as written by make_seeds.py.
struct Field final {
  uint32_t offset;
  uint32_t extra;
  uint16_t group;
  Kind kind;
  uint8_t width;
};
static_assert(sizeof(Field) == 12, "as in the file");

/// The program to start from.
struct Seed final {
  std::string name;
  /// The program and its trailer.
  std::vector<uint8_t> bytes;
  std::vector<Field> fields;
  /// Indices of `fields` by group, for the groups that the program has: each is changed with the
  /// same probability. `content` are those of numbers and constants, whose changes validation finds
  /// least; `groups` has all.
  std::vector<std::vector<uint32_t>> groups;
  std::vector<std::vector<uint32_t>> content;
};

/**
 * Changes programs field by field without moving anything, so that the list of a seed's fields
 * stays valid for all inputs derived from it.
 */
class Mutator final {
 public:
  /// Bytes at the end of an input that say which seed it came from.
  static constexpr size_t kTrailer = 8;

  /// @param[in] folder What make_seeds.py wrote. Aborts if it cannot be read.
  explicit Mutator(const std::string& folder);

  const std::vector<Seed>& seeds() const {
    return seeds_;
  }

  /// Number of the seed that an input came from, or seeds().size() if it came from none.
  size_t seed_of(const uint8_t* data, size_t size) const;

  /// Changes one field or a few that belong together. The input must have come from the seed.
  void mutate(uint8_t* data, const Seed& seed, std::minstd_rand& random) const;

  /// Takes fields from another input that came from the same seed.
  void cross_over(uint8_t* data, const uint8_t* other, const Seed& seed, std::minstd_rand& random)
      const;

 private:
  void mutate_field(uint8_t* data, const Seed& seed, uint32_t index, std::minstd_rand& random)
      const;
  uint64_t interesting_number(uint64_t now, const Field& field, std::minstd_rand& random) const;
  void mutate_bytes(uint8_t* data, const Field& field, std::minstd_rand& random) const;
  void retarget(uint8_t* data, const Seed& seed, const Field& field, std::minstd_rand& random)
      const;
  void change_union(uint8_t* data, const Seed& seed, uint32_t index, std::minstd_rand& random)
      const;
  bool splice(uint8_t* data, const Field& field, std::minstd_rand& random) const;

  std::vector<Seed> seeds_;
  /// Seed and field, by group, of all seeds.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> pool_;
};

} // namespace torch_fusion::fuzz
