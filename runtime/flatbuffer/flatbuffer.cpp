#include "runtime/flatbuffer/flatbuffer.h"

namespace flatbuffers {

const uint8_t* Table::field(uint32_t place, uint32_t width) const {
  return View(this).field(place, width);
}

Verifier::Verifier(const void* data, size_t size)
    : base_(static_cast<const uint8_t*>(data)),
      size_(static_cast<uint32_t>(size)),
      budget_(static_cast<uint32_t>(size)),
      ok_(size <= INT32_MAX) {}

// Opens the table at a position: table and vtable must be inside the buffer.
[[gnu::always_inline]] inline bool Verifier::open_at(uint32_t position, View& view) {
  const auto last = static_cast<uint32_t>(size_ - sizeof(uint32_t));
  if (position <= last) {
    const uint8_t* table = base_ + position;
    const uint32_t vtable_position = position - load<uint32_t>(table);
    if (vtable_position <= last) {
      const uint8_t* vtable = base_ + vtable_position;
      const uint32_t vtable_size = load<uint16_t>(vtable);
      const uint32_t table_size = load<uint16_t>(vtable + sizeof(uint16_t));
      if (vtable_size <= size_ - vtable_position && table_size + kUnstated <= size_ - position) {
        view.table_ = table;
        view.vtable_ = vtable;
        view.vtable_size_ = vtable_size;
        view.table_size_ = table_size + kUnstated;
        return true;
      }
    }
  }
  ok_ = false;
  return false;
}

// Returns the position that a reference refers to; one beyond the buffer if it refers beyond it.
// Both summands of a good one are below 2^31, so that the sum of no bad one comes out as good.
[[gnu::always_inline]] inline uint32_t Verifier::target_of(const uint8_t* reference) const {
  const uint32_t distance = load<uint32_t>(reference);
  return distance > size_ ? distance : static_cast<uint32_t>(reference - base_) + distance;
}

bool Verifier::root(View& view) {
  return ok_ && open_at(load<uint32_t>(base_), view);
}

[[gnu::noinline]] bool Verifier::open(const View& parent, uint32_t place, View& view) {
  const uint8_t* field = parent.field(place, sizeof(uint32_t));
  return field != nullptr && open_at(target_of(field), view);
}

[[gnu::noinline]] bool Verifier::open_element(const uint8_t* element, View& view) {
  return open_at(target_of(element), view);
}

[[gnu::noinline]] bool
Verifier::open_union_element(const uint8_t* element, uint8_t* type, View& value) {
  constexpr uint32_t kTypePlace = 4;
  constexpr uint32_t kValuePlace = 6;
  View holder;
  if (!open_at(target_of(element), holder)) {
    return false;
  }
  *type = holder.scalar<uint8_t>(kTypePlace);
  const uint8_t* field = holder.field(kValuePlace, sizeof(uint32_t));
  return field != nullptr && open_at(target_of(field), value);
}

[[gnu::noinline]] bool
Verifier::vectors(const View& table, const uint16_t* kinds, uint32_t count, const void** vectors) {
  // Copies, because the compiler must assume that writes through `vectors` change the originals.
  const View view = table;
  const uint8_t* const last = base_ + size_ - sizeof(uint32_t);
  uint32_t budget = budget_;
  for (const uint16_t* const end = kinds + count; kinds != end; ++kinds) {
    const uint32_t kind = *kinds;
    const uint8_t* found = view.field(kind & 0xff, sizeof(uint32_t));
    if (found != nullptr) {
      const uint32_t distance = load<uint32_t>(found);
      uint32_t room = static_cast<uint32_t>(last - found);
      if (distance > room) {
        ok_ = false;
        return false;
      }
      found += distance;
      room -= distance;
      const uint32_t elements = load<uint32_t>(found);
      if (elements > budget || elements > room >> (kind >> 8)) {
        ok_ = false;
        return false;
      }
      budget -= elements;
    }
    *vectors++ = found;
  }
  budget_ = budget;
  return true;
}

[[gnu::noinline]] const void* Verifier::vector_of(const View& view, uint32_t kind) {
  const uint8_t* found = view.field(kind & 0xff, sizeof(uint32_t));
  if (found != nullptr) {
    const uint32_t distance = load<uint32_t>(found);
    auto room =
        static_cast<uint32_t>(size_ - static_cast<uint32_t>(found - base_) - sizeof(uint32_t));
    if (distance <= room) {
      found += distance;
      room -= distance;
      const uint32_t elements = load<uint32_t>(found);
      if (elements <= budget_ && elements <= room >> (kind >> 8)) {
        budget_ -= elements;
        return found;
      }
    }
    ok_ = false;
  }
  return nullptr;
}

const String* Verifier::string(const View& view, uint32_t place) {
  const auto* string = static_cast<const uint8_t*>(vector_of(view, kind<char>(place)));
  if (string == nullptr) {
    return nullptr;
  }
  const uint8_t* end = string + sizeof(uint32_t) + load<uint32_t>(string);
  if (end == base_ + size_ || *end != 0) {
    ok_ = false;
    return nullptr;
  }
  return reinterpret_cast<const String*>(string);
}

} // namespace flatbuffers
