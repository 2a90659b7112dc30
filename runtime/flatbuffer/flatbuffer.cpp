#include "runtime/flatbuffer/flatbuffer.h"

namespace flatbuffers {

const uint8_t* Table::field(uint32_t place, uint32_t width) const {
  const uint8_t* table = reinterpret_cast<const uint8_t*>(this);
  const uint8_t* vtable = table - load<int32_t>(table);
  if (place >= load<uint16_t>(vtable)) {
    return nullptr;
  }
  const uint32_t offset = load<uint16_t>(vtable + place);
  // Offset 0 means absent, and what overlaps the table's first word is corrupted.
  if (offset < sizeof(int32_t) || offset + width > load<uint16_t>(vtable + sizeof(uint16_t))) {
    return nullptr;
  }
  return table + offset;
}

Verifier::Verifier(const void* data, size_t size)
    : base_(static_cast<const uint8_t*>(data)),
      size_(static_cast<uint32_t>(size)),
      // A table takes at least 4 bytes and a reference another 4.
      budget_(static_cast<uint32_t>(size) / 4),
      ok_(size <= INT32_MAX) {}

bool Verifier::spend(uint32_t units) {
  if (units > budget_) {
    ok_ = false;
    return false;
  }
  budget_ -= units;
  return true;
}

// Checks the header of the table at a position: table and vtable lie within the buffer.
bool Verifier::table_at(uint32_t position) {
  // Every position is below size_, so that only the distances to the end need checks.
  if (position <= size_ - sizeof(int32_t)) {
    const uint32_t vtable = position - load<uint32_t>(base_ + position);
    if (vtable <= size_ - sizeof(uint32_t)) {
      const uint32_t vtable_size = load<uint16_t>(base_ + vtable);
      const uint32_t table_size = load<uint16_t>(base_ + vtable + sizeof(uint16_t));
      if (vtable_size >= sizeof(uint32_t) && vtable_size % 2 == 0 && vtable_size <= size_ - vtable &&
          table_size >= sizeof(int32_t) && table_size <= size_ - position) {
        return spend(1);
      }
    }
  }
  ok_ = false;
  return false;
}

const Table* Verifier::root() {
  const uint32_t position = load<uint32_t>(base_);
  return ok_ && table_at(position) ? reinterpret_cast<const Table*>(base_ + position) : nullptr;
}

// Position of a reference's target, below size_ - 4; 0 if absent or bad (nothing can refer to position 0).
uint32_t Verifier::target(const Table* table, uint32_t place) {
  const uint8_t* field = table->field(place, sizeof(uint32_t));
  if (field == nullptr) {
    return 0;
  }
  const uint32_t position = static_cast<uint32_t>(field - base_);
  const uint32_t distance = load<uint32_t>(field);
  if (distance == 0 || distance > size_ - sizeof(uint32_t) - position) {
    ok_ = false;
    return 0;
  }
  return position + distance;
}

bool Verifier::table(const Table* table, uint32_t place) {
  const uint32_t position = target(table, place);
  return position != 0 && table_at(position);
}

// As target(), for a vector whose elements of `width` bytes lie within the buffer.
uint32_t Verifier::vector_at(const Table* table, uint32_t place, uint32_t width) {
  const uint32_t position = target(table, place);
  if (position != 0 && load<uint32_t>(base_ + position) > (size_ - sizeof(uint32_t) - position) / width) {
    ok_ = false;
    return 0;
  }
  return position;
}

bool Verifier::vector(const Table* table, uint32_t place, uint32_t width, uint32_t alignment) {
  const uint32_t position = vector_at(table, place, width);
  if (reinterpret_cast<uintptr_t>(base_ + position + sizeof(uint32_t)) % alignment != 0 && position != 0) {
    ok_ = false;
    return false;
  }
  return position != 0;
}

bool Verifier::string(const Table* table, uint32_t place) {
  const uint32_t position = vector_at(table, place, 1);
  if (position == 0) {
    return false;
  }
  const uint32_t end = position + sizeof(uint32_t) + load<uint32_t>(base_ + position);
  if (end >= size_ || base_[end] != 0) {
    ok_ = false;
    return false;
  }
  return true;
}

bool Verifier::tables(const Table* table, uint32_t place) {
  const uint32_t position = vector_at(table, place, sizeof(uint32_t));
  if (position == 0) {
    return false;
  }
  const uint32_t count = load<uint32_t>(base_ + position);
  for (uint32_t element = position + sizeof(uint32_t), left = count; left != 0; --left, element += sizeof(uint32_t)) {
    const uint32_t distance = load<uint32_t>(base_ + element);
    if (distance > size_ - element || !table_at(element + distance)) {
      ok_ = false;
      return false;
    }
  }
  return true;
}

} // namespace flatbuffers
