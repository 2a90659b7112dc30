#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

/**
 * @file
 * Reader and verifier of FlatBuffers (FlatBuffers documentation, "FlatBuffer Internals"), for
 * tables whose accessors
 * //tools/abi/schema generates from a schema.
 *
 * The runtime reads programs with this instead of the FlatBuffers library for safety and for flash.
 * The library's accessors trust their data, so its verifier has to run before them, which is one
 * function per table that visits every field of every table, used or not; and it needs a compiler
 * of the same version. Here the division of work is another:
 *
 * - A scalar is checked when it is read: a table's header, once verified, holds the table's size,
 * and a field that doesn't lie within reads as its default. Nothing else has to verify scalars.
 * - References (tables, vectors, strings) are verified by Verifier as it follows them, once, and
 * only those that the runtime follows.
 *
 * Values are read by memcpy, as a corrupted program may put them at any address; on the cores that
 * we build for that is one load instruction. Vectors whose elements are handed out by address are
 * verified to be aligned.
 */

static_assert(
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "programs are little-endian and read in place");

namespace flatbuffers {

/// Reads a value at any address.
template <typename T>
[[gnu::always_inline]] inline T load(const void* address) {
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

  [[gnu::always_inline]] SizeT size() const {
    return load<SizeT>(this);
  }

  /// Address of the elements; aligned for T only where the verifier checked it.
  [[gnu::always_inline]] const T* data() const {
    return reinterpret_cast<const T*>(address());
  }

  /// The element at an index below size(): a scalar's value, or the address that an offset points
  /// at.
  [[gnu::always_inline]] auto operator[](SizeT index) const {
    return get(index, static_cast<T*>(nullptr));
  }

 private:
  template <typename U>
  [[gnu::always_inline]] const U* get(SizeT index, Offset<U>*) const {
    const uint8_t* element = address() + index * sizeof(uint32_t);
    return reinterpret_cast<const U*>(element + load<uint32_t>(element));
  }

  [[gnu::always_inline]] T get(SizeT index, void*) const {
    return load<T>(address() + index * sizeof(T));
  }

  [[gnu::always_inline]] const uint8_t* address() const {
    return reinterpret_cast<const uint8_t*>(this) + sizeof(SizeT);
  }
};

/// Length of a vector, 0 if it is absent.
template <typename T>
inline uint32_t length(const Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

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

/// The characters of a string, none if it is absent.
inline std::string_view view(const String* string) {
  return string == nullptr ? std::string_view() : string->view();
}

class Table;

/**
 * The number of bytes by which a table's last field may exceed the size in its vtable.
 *
 * FlatBuffers' Python library before 25.12 shares a vtable between tables with fields at the same
 * offsets but of different widths, and the vtable has the size of the one written first. No scalar
 * is wider than 8 bytes. Verifier refuses tables that end less than this before the buffer does, so
 * that later reads of a table, through a View or a generated class, only access verified memory.
 * Programs end with names of operators or delegates, whoever writes them: at least 24 bytes follow
 * their last tables. This project's serializer pads those that have neither.
 */
constexpr uint32_t kUnstated = 7;

/**
 * A table whose header has been verified, opened for reading: it contains what every access needs.
 *
 * Its accessors are inlined, for functions that read much of a table. Those of the generated tables
 * are not.
 */
class View {
 public:
  /// It is nothing until Verifier::open() makes it a table.
  View() = default;

  /// Opens a table whose header has been verified.
  explicit View(const Table* table)
      : table_(reinterpret_cast<const uint8_t*>(table)),
        vtable_(table_ - load<int32_t>(table_)),
        vtable_size_(load<uint16_t>(vtable_)),
        table_size_(load<uint16_t>(vtable_ + sizeof(uint16_t)) + kUnstated) {}

  /**
   * Returns the address of a field, or nullptr if the table doesn't have it or it is not inside the
   * table.
   */
  [[gnu::always_inline]] const uint8_t* field(uint32_t place, uint32_t width) const {
    if (place + 1 >= vtable_size_) {
      return nullptr;
    }
    const uint32_t offset = load<uint16_t>(vtable_ + place);
    // Offset 0 means absent, and what overlaps the table's first word is corrupted.
    return offset < sizeof(int32_t) || offset + width > table_size_ ? nullptr : table_ + offset;
  }

  /// True if a field is absent, or within the table: for a caller that uses its address directly.
  bool is_sound(uint32_t place, uint32_t width) const {
    return place + 1 >= vtable_size_ || load<uint16_t>(vtable_ + place) == 0 ||
        field(place, width) != nullptr;
  }

  /// Value of a scalar.
  template <typename T>
  [[gnu::always_inline]] T scalar(uint32_t place, T otherwise = T()) const {
    const uint8_t* address = field(place, sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      return address == nullptr ? otherwise : *address != 0;
    } else {
      return address == nullptr ? otherwise : load<T>(address);
    }
  }

  /// Target of a reference that has been verified to be there.
  template <typename T>
  [[gnu::always_inline]] const T* known_reference(uint32_t place) const {
    const uint8_t* address = table_ + load<uint16_t>(vtable_ + place);
    return reinterpret_cast<const T*>(address + load<uint32_t>(address));
  }

  /// The table in place, whose accessors may be called as far as its references have been verified.
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(table_);
  }

 private:
  friend class Verifier;

  const uint8_t* table_;
  const uint8_t* vtable_;
  uint32_t vtable_size_;
  uint32_t table_size_;
};

/// Base of the generated tables. The object is the table itself, in place.
class Table {
 public:
  /// Does the same as View::field().
  const uint8_t* field(uint32_t place, uint32_t width) const;

 protected:
  Table() = delete;

  template <typename T>
  T scalar(uint32_t place, T otherwise) const {
    const uint8_t* address = field(place, sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      return address == nullptr ? otherwise : *address != 0;
    } else {
      return address == nullptr ? otherwise : load<T>(address);
    }
  }

  /// Target of a reference. Only what Verifier accepted may be read through it.
  template <typename T>
  const T* reference(uint32_t place) const {
    const uint8_t* address = field(place, sizeof(uint32_t));
    return address == nullptr ? nullptr
                              : reinterpret_cast<const T*>(address + load<uint32_t>(address));
  }
};

/**
 * Follows references, so that what they point at lies within the buffer.
 *
 * A failure is remembered: ok() says whether all references that were followed are good. An absent
 * reference is good, and is followed to nothing, as is a bad one.
 *
 * Work is bounded: all elements of all vectors, all characters and all tables that are visited
 * together may not be more than the buffer's bytes, so that a buffer whose vectors share elements
 * cannot multiply it.
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

  /// Opens the root table; false if it is bad.
  bool root(View& view);

  /// Opens the table that a field refers to; false if there is none.
  bool open(const View& parent, uint32_t place, View& view);

  /// Opens the table that an element of a vector refers to; false if it is bad.
  template <typename T>
  [[gnu::always_inline]] bool open(const Vector<Offset<T>>& vector, uint32_t index, View& view) {
    return open_element(reinterpret_cast<const uint8_t*>(vector.data() + index), view);
  }

  /**
   * Opens what an element of a vector of unions refers to: a table that has nothing but a union,
   * its type in the first slot and its value in the second.
   *
   * @param[out] type The union's type.
   * @param[out] value The union's value.
   * @returns false if the table is bad, or the union is absent or bad.
   */
  template <typename T>
  [[gnu::always_inline]] bool
  open_union(const Vector<Offset<T>>& vector, uint32_t index, uint8_t* type, View& value) {
    return open_union_element(reinterpret_cast<const uint8_t*>(vector.data() + index), type, value);
  }

  /// The string that a field refers to, or nullptr.
  const String* string(const View& view, uint32_t place);

  /// Names a vector for vectors(): its place, and the width of its elements as a power of 2.
  template <typename T>
  static constexpr uint16_t kind(uint32_t place) {
    constexpr uint32_t kShift = sizeof(T) == 8 ? 3 : sizeof(T) == 4 ? 2 : 0;
    static_assert(1u << kShift == sizeof(T));
    return static_cast<uint16_t>(place | kShift << 8);
  }

  /**
   * The vectors that several fields of a table refer to, or nullptr for those that are absent. The
   * targets of references in them are not verified, nor is their alignment.
   *
   * @param[in] kinds What kind() gives for each.
   * @param[out] vectors Receives as many `const Vector<T>*`.
   * @returns false if any of them is bad.
   */
  bool vectors(const View& table, const uint16_t* kinds, uint32_t count, const void** vectors);

  /// The vector that a field refers to, or nullptr. The targets of references in it are not
  /// verified.
  template <typename T>
  [[gnu::always_inline]] const Vector<T>* vector(const View& view, uint32_t place) {
    return static_cast<const Vector<T>*>(vector_of(view, kind<T>(place)));
  }

  /// Does the same as vector(), with elements that are aligned for their type.
  template <typename T>
  const Vector<T>* aligned_vector(const View& view, uint32_t place) {
    const Vector<T>* found = vector<T>(view, place);
    if (found != nullptr && !is_aligned(found)) {
      ok_ = false;
      return nullptr;
    }
    return found;
  }

  /// True if a vector's elements are aligned for their type.
  template <typename T>
  static bool is_aligned(const Vector<T>* vector) {
    return reinterpret_cast<uintptr_t>(vector->data()) % alignof(T) == 0;
  }

 private:
  bool open_at(uint32_t position, View& view);
  bool open_element(const uint8_t* element, View& view);
  bool open_union_element(const uint8_t* element, uint8_t* type, View& value);
  const void* vector_of(const View& view, uint32_t kind);
  uint32_t target_of(const uint8_t* element) const;

  const uint8_t* base_;
  uint32_t size_;
  uint32_t budget_;
  bool ok_;
};

} // namespace flatbuffers
