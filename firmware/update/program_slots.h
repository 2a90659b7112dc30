#pragma once

#include <stddef.h>
#include <stdint.h>

#include <executorch/runtime/core/span.h>

namespace torch_fusion {

/// The first bytes of a signed program, as tools/artifacts/signed_program writes them; the program
/// follows. All numbers are little-endian.
struct SignedProgramHeader {
  char magic[8];
  uint32_t format;
  /// The program's version; a device never goes back to a smaller one.
  uint32_t version;
  /// Bytes of the program.
  uint32_t size;
  uint8_t reserved[12];
  /// The product whose devices take it, with zeros after its name.
  char product[32];
  /// SHA-512 of the program.
  uint8_t digest[64];
  /// Ed25519 (RFC 8032, section 5.1) of the bytes before this one.
  uint8_t signature[64];
};

inline constexpr size_t kSignedProgramHeaderSize = 192;
static_assert(sizeof(SignedProgramHeader) == kSignedProgramHeaderSize);

enum class UpdateStatus : uint8_t {
  Ok,
  /// The bytes are no signed program of this format.
  NotASignedProgram,
  /// It is signed for another product.
  OtherProduct,
  /// Its version is not above that of every program that was confirmed.
  OldVersion,
  /// It does not fit into a slot.
  TooLarge,
  /// The key that the image trusts has not signed it, or bytes have changed.
  BadSignature,
  /// More or fewer bytes came than begin() was told, or begin() was not called.
  WrongSize,
  /// The running program is an update that confirm() has not been called for: the other slot is
  /// what the device would fall back to.
  Unconfirmed,
  /// The flash controller reports an error, or does not keep what was written.
  FlashFailed,
};

/// Two slots in flash for signed programs. Whatever ends a call early, a crash or a power cut at
/// any write, afterwards choose() finds the program that ran before or the whole new one.
/// docs/update.md describes the contents of a slot.
class ProgramSlots {
 public:
  /// Times that a program is started without confirm() until the device falls back.
  static constexpr size_t kTries = 3;
  /// The program's offset in a slot.
  static constexpr size_t kProgramOffset = 256;

  /// The slots' addresses, at a page's start, each of `slot_size` bytes, whole pages.
  /// board_flash.h has the functions on boards.
  struct Flash {
    uintptr_t begin;
    size_t slot_size;
    size_t page_size;
    size_t write_size;
    bool (*erase)(uintptr_t address);
    bool (*write)(uintptr_t address, const void* data, size_t size);
  };

  /// The programs that the image accepts: those that `public_key` (32 bytes) has signed for
  /// `product` (at most 31 characters), with a version above `version`, which is that of the
  /// image's own program.
  struct Trust {
    const uint8_t* public_key;
    const char* product;
    uint32_t version;
  };

  ProgramSlots(const Flash& flash, const Trust& trust);

  /// Chooses the program to run, to be called once after a start: that of the highest version with
  /// a good signature, unless it was started kTries times without confirm(). Counts this start if
  /// the program is not confirmed.
  /// @returns the program, where it is in flash, aligned to 16 bytes; empty for the image's own.
  executorch::runtime::Span<const uint8_t> choose();

  /// The version of what choose() returned.
  uint32_t version() const;

  /// Whether what choose() returned is the image's own program, or one that was confirmed.
  bool confirmed() const;

  /// The largest signed program, in bytes.
  size_t largest() const {
    return flash_.slot_size - kProgramOffset + kSignedProgramHeaderSize;
  }

  /// Keeps the chosen program, which has shown that it works.
  UpdateStatus confirm();

  /// Gives the chosen program up for good, which cannot be loaded; choose() then finds another.
  UpdateStatus reject();

  /// Begins an update of `size` bytes. What was begun before is forgotten. It is FlashFailed, too,
  /// after the fourth confirmed program that was rejected and left the chosen one.
  UpdateStatus begin(size_t size);

  /// Takes the next bytes of the update, as many as there are. An error ends the update.
  UpdateStatus write(executorch::runtime::Span<const uint8_t> data);

  /// Bytes of the update so far.
  size_t received() const {
    return received_;
  }

  /// Checks what was written. If it is Ok, the next choose() finds the program. Calling it again
  /// gives the same result.
  UpdateStatus finish();

 private:
  static constexpr size_t kNone = 2;
  static constexpr size_t kMarkSize = 8;
  static constexpr size_t kFirstTry = kSignedProgramHeaderSize;
  static constexpr size_t kConfirmed = kFirstTry + kTries * kMarkSize;
  static constexpr size_t kRejected = kConfirmed + kMarkSize;
  /// Records of the highest version that was confirmed, each the version and its complement.
  static constexpr size_t kFirstRecord = kRejected + kMarkSize;
  static_assert(kFirstRecord < kProgramOffset && (kProgramOffset - kFirstRecord) % kMarkSize == 0);

  enum class Mark : uint8_t { Erased, Torn, Set };

  uintptr_t slot(size_t index) const {
    return flash_.begin + index * flash_.slot_size;
  }
  const SignedProgramHeader& header(size_t index) const {
    return *reinterpret_cast<const SignedProgramHeader*>(slot(index));
  }
  Mark mark(size_t index, size_t offset) const;
  bool set_mark(size_t index, size_t offset);
  UpdateStatus check(const SignedProgramHeader& header, uint32_t above) const;
  bool has_signature(const SignedProgramHeader& header) const;
  bool is_signed(const SignedProgramHeader& header, size_t index) const;
  uint32_t known_version(size_t index) const;
  bool record(size_t index, uint32_t version);
  bool is_eligible(size_t index) const;
  UpdateStatus end(UpdateStatus status);
  bool put(uint8_t byte);
  bool flush();

  Flash flash_;
  Trust trust_;
  /// The slot that choose() chose; kNone for the image's own program.
  size_t chosen_ = kNone;
  /// The slot that an update is written to; kNone if there is no update.
  size_t target_ = kNone;
  /// The update's version is above it.
  uint32_t highest_ = 0;
  size_t expected_ = 0;
  size_t received_ = 0;
  UpdateStatus finished_ = UpdateStatus::WrongSize;
  SignedProgramHeader header_;
  uint8_t pending_[kMarkSize];
};

} // namespace torch_fusion
