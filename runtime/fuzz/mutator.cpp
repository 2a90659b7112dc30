#include "runtime/fuzz/mutator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/tests/program_runner.h"

namespace torch_fusion::fuzz {

namespace {

template <typename T>
T read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void write(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

uint64_t read_number(const uint8_t* from, size_t width) {
  uint64_t value = 0;
  std::memcpy(&value, from, width);
  return value;
}

uint32_t below(uint32_t limit, std::minstd_rand& random) {
  return limit == 0 ? 0 : static_cast<uint32_t>(random() % limit);
}

template <typename T>
const T& any(const std::vector<T>& from, std::minstd_rand& random) {
  return from[below(static_cast<uint32_t>(from.size()), random)];
}

bool is_content(const Field& field) {
  return field.kind == Kind::Scalar || field.kind == Kind::Index || field.kind == Kind::Bytes;
}

bool is_string(const Field& field) {
  return field.kind == Kind::Length && field.extra == 1;
}

} // namespace

Mutator::Mutator(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/corpus")) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  const std::vector<uint8_t> description = testing::read_file(folder + "/fields.bin");
  const uint8_t* next = description.data();
  size_t group_count = read<uint32_t>(description.data() + description.size() - 4);
  pool_.resize(group_count);
  for (const std::string& file : files) {
    Seed seed;
    // NNN_name
    seed.name = std::filesystem::path(file).filename().string().substr(4);
    seed.bytes = testing::read_file(file);
    seed.fields.resize(read<uint32_t>(next));
    std::memcpy(seed.fields.data(), next + 4, seed.fields.size() * sizeof(Field));
    next += 4 + seed.fields.size() * sizeof(Field);
    std::vector<std::vector<uint32_t>> by_group(group_count);
    for (uint32_t i = 0; i < seed.fields.size(); ++i) {
      by_group[seed.fields[i].group].push_back(i);
      pool_[seed.fields[i].group].emplace_back(static_cast<uint32_t>(seeds_.size()), i);
    }
    for (std::vector<uint32_t>& group : by_group) {
      if (group.empty()) {
        continue;
      }
      if (is_content(seed.fields[group[0]])) {
        seed.content.push_back(group);
      }
      seed.groups.push_back(std::move(group));
    }
    seeds_.push_back(std::move(seed));
  }
}

size_t Mutator::seed_of(const uint8_t* data, size_t size) const {
  if (size < kTrailer || std::memcmp(data + size - kTrailer, "SEED", 4) != 0) {
    return seeds_.size();
  }
  const size_t number = read<uint16_t>(data + size - 4);
  return number < seeds_.size() && seeds_[number].bytes.size() == size ? number : seeds_.size();
}

void Mutator::mutate(uint8_t* data, const Seed& seed, std::minstd_rand& random) const {
  const std::vector<uint32_t>& group =
      below(4, random) != 0 ? any(seed.content, random) : any(seed.groups, random);
  const uint32_t index = any(group, random);
  mutate_field(data, seed, index, random);
  // Two of the same kind: indices swapped, a vector and another.
  if (below(8, random) == 0) {
    const Field& one = seed.fields[index];
    const Field& other = seed.fields[any(group, random)];
    if (one.width == other.width && one.kind != Kind::Bytes && one.kind != Kind::Offset) {
      std::swap_ranges(data + one.offset, data + one.offset + one.width, data + other.offset);
    }
  }
}

void Mutator::cross_over(
    uint8_t* data,
    const uint8_t* other,
    const Seed& seed,
    std::minstd_rand& random) const {
  const uint32_t share = 1 + below(16, random);
  for (const Field& field : seed.fields) {
    const size_t width = field.kind == Kind::Bytes ? field.extra : field.width;
    if (below(32, random) < share) {
      std::copy_n(other + field.offset, width, data + field.offset);
    }
  }
}

void Mutator::mutate_field(
    uint8_t* data,
    const Seed& seed,
    uint32_t index,
    std::minstd_rand& random) const {
  const Field& field = seed.fields[index];
  uint8_t* const at = data + field.offset;
  const uint64_t now = read_number(at, field.width);
  uint64_t then = now;
  switch (field.kind) {
    case Kind::Bytes:
      mutate_bytes(data, field, random);
      return;
    case Kind::Offset:
      retarget(data, seed, field, random);
      return;
    case Kind::Enum:
      then = below(8, random) == 0 ? random() : below(field.extra + 1, random);
      if (field.width == 1 && index + 1 < seed.fields.size() &&
          seed.fields[index + 1].kind == Kind::Offset && below(4, random) != 0) {
        std::memcpy(at, &then, field.width);
        change_union(data, seed, index, random);
        return;
      }
      break;
    case Kind::Index:
      // Most of the time something that exists.
      then = below(8, random) == 0 ? interesting_number(now, field, random)
                                   : below(field.extra, random);
      break;
    case Kind::Length:
      if (is_string(field) && splice(data, field, random)) {
        return;
      }
      [[fallthrough]];
    case Kind::Scalar:
      if (below(3, random) == 0 && splice(data, field, random)) {
        return;
      }
      then = interesting_number(now, field, random);
      break;
    case Kind::Table:
      // Another table's vtable, or one beside it.
      if (below(2, random) == 0) {
        const Field& other = seed.fields[any(
            seed.groups[below(static_cast<uint32_t>(seed.groups.size()), random)], random)];
        if (other.kind == Kind::Table) {
          const int64_t vtable = int64_t{other.offset} - read<int32_t>(data + other.offset);
          then = static_cast<uint64_t>(int64_t{field.offset} - vtable);
          break;
        }
      }
      then = now + 2 * (below(17, random) - uint64_t{8});
      break;
    case Kind::Slot:
      then = below(3, random) == 0 ? 0
          : below(2, random) == 0  ? now + 2 * (below(9, random) - uint64_t{4})
                                   : below(40, random);
      break;
  }
  std::memcpy(at, &then, field.width);
}

uint64_t Mutator::interesting_number(uint64_t now, const Field& field, std::minstd_rand& random)
    const {
  switch (below(9, random)) {
    case 0:
      return now + 1;
    case 1:
      return now - 1;
    case 2:
      return now ^ (uint64_t{1} << below(8u * field.width, random));
    case 3:
      return below(20, random);
    case 4:
      return uint64_t{0} - below(5, random);
    case 5:
      return now * (2 + below(3, random));
    case 6:
      return now / (2 + below(3, random));
    case 7:
      return (uint64_t{1} << below(8u * field.width, random)) - below(2, random);
    default:
      return (uint64_t{random()} << 32) | random();
  }
}

void Mutator::mutate_bytes(uint8_t* data, const Field& field, std::minstd_rand& random) const {
  uint8_t* const begin = data + field.offset;
  const uint32_t position = below(field.extra, random);
  // Numbers in constants are of four bytes or one.
  if (below(2, random) == 0 && field.extra >= 4) {
    uint8_t* const word = begin + std::min(position / 4 * 4, field.extra - 4);
    const Field number{0, 0, 0, Kind::Scalar, 4};
    write(word, static_cast<uint32_t>(interesting_number(read<uint32_t>(word), number, random)));
  } else if (below(2, random) == 0) {
    const uint32_t length = std::min(1 + below(16, random), field.extra);
    std::memmove(
        begin + below(field.extra - length + 1, random),
        begin + below(field.extra - length + 1, random),
        length);
  } else {
    begin[position] = static_cast<uint8_t>(random());
  }
}

void Mutator::retarget(
    uint8_t* data,
    const Seed& seed,
    const Field& field,
    std::minstd_rand& random) const {
  uint8_t* const at = data + field.offset;
  if (below(8, random) == 0) {
    write(at, static_cast<uint32_t>(interesting_number(read<uint32_t>(at), field, random)));
    return;
  }
  // Another one of the same type; offsets lead forward.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Field& other = seed.fields[any(any(seed.groups, random), random)];
    const bool is_same = other.kind == Kind::Offset && other.extra == field.extra;
    const bool is_any_offset = other.kind == Kind::Offset && attempt == 7;
    if (is_same || is_any_offset) {
      const uint32_t target = other.offset + read<uint32_t>(data + other.offset);
      if (target > field.offset) {
        write(at, target - field.offset);
        return;
      }
    }
  }
}

void Mutator::change_union(
    uint8_t* data,
    const Seed& seed,
    uint32_t index,
    std::minstd_rand& random) const {
  // The table's fields were another type's; those of four bytes get numbers of values.
  const Field& pointer = seed.fields[index + 1];
  const size_t end = seed.bytes.size() - kTrailer;
  const size_t table = size_t{pointer.offset} + read<uint32_t>(data + pointer.offset);
  if (table + 4 > end) {
    return;
  }
  const int64_t vtable = static_cast<int64_t>(table) - read<int32_t>(data + table);
  if (vtable < 0 || static_cast<size_t>(vtable) + 8 > end) {
    return;
  }
  const uint32_t values = 64;
  for (size_t slot = 0; slot < 2; ++slot) {
    const size_t within = read<uint16_t>(data + vtable + 4 + 2 * slot);
    if (within != 0 && table + within + 4 <= end && below(4, random) != 0) {
      write(data + table + within, below(values, random));
    }
  }
}

bool Mutator::splice(uint8_t* data, const Field& field, std::minstd_rand& random) const {
  const auto& [seed_number, field_number] = any(pool_[field.group], random);
  const Seed& seed = seeds_[seed_number];
  const Field& other = seed.fields[field_number];
  if (!is_string(field)) {
    if (other.width != field.width) {
      return false;
    }
    std::copy_n(seed.bytes.data() + other.offset, field.width, data + field.offset);
    return true;
  }
  // A string of at most the length: an operator's name, mostly.
  const uint32_t length = read<uint32_t>(seed.bytes.data() + other.offset);
  if (length > read<uint32_t>(data + field.offset) ||
      other.offset + 4 + length > seed.bytes.size()) {
    return false;
  }
  std::copy_n(seed.bytes.data() + other.offset, 4 + length, data + field.offset);
  data[field.offset + 4 + length] = 0;
  return true;
}

} // namespace torch_fusion::fuzz
