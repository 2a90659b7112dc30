#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

/**
 * @file
 * Reader and verifier of FlatBuffers (FlatBuffers documentation, "FlatBuffer Internals"), for tables whose accessors
 * //tools/schema generates from a schema.
 *
 * The runtime reads programs with this instead of the FlatBuffers library for safety and for flash. The library's accessors trust
 * their data, so its full verifier has to be linked (one function per table, every field of every table, used or not), and it needs
 * the compiler of the same version. Here the division of work is another one:
 *
 * - An accessor of a scalar checks itself: a table's verified header holds the table's size, and a field that doesn't lie
 *   within reads as its default. Nothing has to verify scalars, and a table's accessors are safe once its header is.
 * - Only references (tables, vectors, strings) are verified, once, by Verifier, and only those that the runtime follows.
 *
 * Values are read by memcpy, as a corrupted program may put them at any address; that is one load instruction on the cores we
 * build for. Vectors whose elements are handed out by address are verified to be aligned.
 */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "programs are little-endian and read in place");

namespace flatbuffers {

/// Reads a value at any address.
template <typename T>
inline T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

/// Element of a vector of tables or strings: the distance from itself to its target, in bytes.
template <typename T>
struct Offset {
  uint32_t distance;
};

/// A verified vector: its length followed by its elements.
template <typename T, typename SizeT = uint32_t>
class Vector {
 public:
  Vector() = delete;

  SizeT size() const {
    return load<SizeT>(this);
  }

  /// Address of the elements; aligned for T only where the verifier checked it.
  const T* data() const {
    return reinterpret_cast<const T*>(address());
  }

  /// The element at an index below size(): a scalar's value, or the address that an offset points at.
  auto operator[](SizeT index) const {
    return get(index, static_cast<T*>(nullptr));
  }

 private:
  template <typename U>
  const U* get(SizeT index, Offset<U>*) const {
    const uint8_t* element = address() + index * sizeof(uint32_t);
    return reinterpret_cast<const U*>(element + load<uint32_t>(element));
  }

  T get(SizeT index, void*) const {
    return load<T>(address() + index * sizeof(T));
  }

  const uint8_t* address() const {
    return reinterpret_cast<const uint8_t*>(this) + sizeof(SizeT);
  }
};

/// A verified string: its length, its characters, and a NUL that the length doesn't count.
class String {
 public:
  String() = delete;

  uint32_t size() const {
    return load<uint32_t>(this);
  }
  const char* c_str() const {
    return reinterpret_cast<const char*>(this) + sizeof(uint32_t);
  }
  std::string_view view() const {
    return {c_str(), size()};
  }
};

/// Base of the generated tables. The object is the table itself, in place.
class Table {
 public:
  /**
   * Address of a field, or nullptr if the table doesn't have it or it doesn't lie within the table.
   *
   * @param[in] place The field's place in the vtable, in bytes from its start: 4 + 2 * slot.
   * @param[in] width The field's width in bytes.
   */
  const uint8_t* field(uint32_t place, uint32_t width) const;

 protected:
  Table() = delete;

  template <typename T>
  T scalar(uint32_t place, T otherwise) const {
    const uint8_t* address = field(place, sizeof(T));
    if (address == nullptr) {
      return otherwise;
    }
    if constexpr (std::is_same_v<T, bool>) {
      return *address != 0;
    } else {
      return load<T>(address);
    }
  }

  /// Target of a reference. Only what Verifier accepted may be read through it.
  template <typename T>
  const T* reference(uint32_t place) const {
    const uint8_t* address = field(place, sizeof(uint32_t));
    return address == nullptr ? nullptr : reinterpret_cast<const T*>(address + load<uint32_t>(address));
  }
};

/**
 * Checks references, so that what they point at lies within the buffer.
 *
 * A failure is remembered: after any number of calls, ok() says whether all references were good. Absent references are good. The calls that
 * return bool say whether there is a target to go on with.
 *
 * Work is bounded: the number of tables that may be verified is what the buffer can hold, so that a buffer whose vectors share
 * elements cannot multiply it.
 */
class Verifier {
 public:
  /**
   * @param[in] data The buffer, which must be at least 8 bytes long.
   * @param[in] size Its size in bytes. More than 2 GiB fails.
   */
  Verifier(const void* data, size_t size);

  bool ok() const {
    return ok_;
  }

  /// Marks the buffer as bad for a reason of the caller's.
  void fail() {
    ok_ = false;
  }

  /// Takes `units` from the bound on the work; false, and a failure, where nothing is left.
  bool spend(uint32_t units);

  /// The root table, or nullptr if it is bad.
  const Table* root();

  /// Verifies a field that refers to a table.
  bool table(const Table* table, uint32_t place);

  /// Verifies a field that refers to a vector of scalars of `width` bytes, whose elements must be aligned to `alignment`.
  bool vector(const Table* table, uint32_t place, uint32_t width, uint32_t alignment = 1);

  /// Verifies a field that refers to a string.
  bool string(const Table* table, uint32_t place);

  /// Verifies a field that refers to a vector of tables, and the tables' headers.
  bool tables(const Table* table, uint32_t place);

 private:
  bool table_at(uint32_t position);
  uint32_t vector_at(const Table* table, uint32_t place, uint32_t width);
  uint32_t target(const Table* table, uint32_t place);

  const uint8_t* base_;
  uint32_t size_;
  uint32_t budget_;
  bool ok_;
};

} // namespace flatbuffers
