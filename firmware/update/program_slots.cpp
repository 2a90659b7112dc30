#include "firmware/update/program_slots.h"

#include <algorithm>
#include <cstring>

extern "C" {
#include <crypto_hash_sha512.h>
#include <crypto_sign_ed25519.h>
}

namespace torch_fusion {

namespace {

using executorch::runtime::Span;

constexpr char kMagic[8] = {'T', 'F', 'S', 'I', 'G', 'N', 'E', 'D'};
constexpr uint32_t kFormat = 1;
constexpr size_t kSignedBytes = offsetof(SignedProgramHeader, signature);

} // namespace

ProgramSlots::ProgramSlots(const Flash& flash, const Trust& trust) : flash_(flash), trust_(trust) {}

ProgramSlots::Mark ProgramSlots::mark(size_t index, size_t offset) const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(slot(index) + offset);
  uint8_t any = 0;
  uint8_t all = 0xFF;
  for (size_t i = 0; i < kMarkSize; ++i) {
    any |= bytes[i];
    all &= bytes[i];
  }
  return any == 0 ? Mark::Set : all == 0xFF ? Mark::Erased : Mark::Torn;
}

/// A mark is zeros, which may be written over what a power cut has left of them.
bool ProgramSlots::set_mark(size_t index, size_t offset) {
  static constexpr uint8_t kZeros[kMarkSize] = {};
  return flash_.write(slot(index) + offset, kZeros, kMarkSize) && mark(index, offset) == Mark::Set;
}

UpdateStatus ProgramSlots::check(const SignedProgramHeader& header, uint32_t above) const {
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.format != kFormat ||
      header.size == 0) {
    return UpdateStatus::NotASignedProgram;
  }
  if (std::strncmp(header.product, trust_.product, sizeof(header.product)) != 0) {
    return UpdateStatus::OtherProduct;
  }
  if (header.version <= above) {
    return UpdateStatus::OldVersion;
  }
  return header.size > flash_.slot_size - kProgramOffset ? UpdateStatus::TooLarge
                                                         : UpdateStatus::Ok;
}

bool ProgramSlots::has_signature(const SignedProgramHeader& header) const {
  return crypto_sign_ed25519_verify_detached(
             header.signature,
             reinterpret_cast<const uint8_t*>(&header),
             kSignedBytes,
             trust_.public_key) == 0;
}

bool ProgramSlots::is_signed(const SignedProgramHeader& header, size_t index) const {
  uint8_t digest[crypto_hash_sha512_BYTES];
  crypto_hash_sha512(
      digest, reinterpret_cast<const uint8_t*>(slot(index) + kProgramOffset), header.size);
  return std::memcmp(digest, header.digest, sizeof(digest)) == 0 && has_signature(header);
}

/// The highest version that was confirmed, as far as a slot tells; 0 if it tells of none.
uint32_t ProgramSlots::known_version(size_t index) const {
  const SignedProgramHeader& program = header(index);
  uint32_t known =
      mark(index, kConfirmed) == Mark::Set && has_signature(program) ? program.version : 0;
  for (size_t at = kFirstRecord; at < kProgramOffset; at += kMarkSize) {
    uint32_t record[2];
    std::memcpy(record, reinterpret_cast<const void*>(slot(index) + at), sizeof(record));
    // A record that a power cut tore is none.
    if (record[0] == ~record[1]) {
      known = std::max(known, record[0]);
    }
  }
  return known;
}

/// Keeps a version in a slot that knows of a smaller one.
bool ProgramSlots::record(size_t index, uint32_t version) {
  const uint32_t record[2] = {version, ~version};
  static_assert(sizeof(record) == kMarkSize);
  for (size_t at = kFirstRecord; at < kProgramOffset; at += kMarkSize) {
    if (mark(index, at) == Mark::Erased) {
      return flash_.write(slot(index) + at, record, kMarkSize) && known_version(index) == version;
    }
  }
  return false;
}

/// Whether a slot's program may run, but for its signature.
bool ProgramSlots::is_eligible(size_t index) const {
  return check(header(index), trust_.version) == UpdateStatus::Ok &&
      mark(index, kRejected) == Mark::Erased &&
      (mark(index, kConfirmed) == Mark::Set ||
       mark(index, kFirstTry + (kTries - 1) * kMarkSize) == Mark::Erased);
}

Span<const uint8_t> ProgramSlots::choose() {
  chosen_ = kNone;
  target_ = kNone;
  const size_t newest = header(1).version > header(0).version ? 1 : 0;
  for (size_t i = 0; i < kNone; ++i) {
    const size_t index = i == 0 ? newest : 1 - newest;
    if (chosen_ == kNone && is_eligible(index) && is_signed(header(index), index)) {
      chosen_ = index;
    }
  }
  if (chosen_ == kNone) {
    return {};
  }
  if (!confirmed()) {
    size_t next = kFirstTry;
    while (mark(chosen_, next) != Mark::Erased) {
      next += kMarkSize;
    }
    // A start that cannot be counted could be repeated for ever.
    if (!set_mark(chosen_, next)) {
      chosen_ = kNone;
      return {};
    }
  }
  return {reinterpret_cast<const uint8_t*>(slot(chosen_) + kProgramOffset), header(chosen_).size};
}

uint32_t ProgramSlots::version() const {
  return chosen_ == kNone ? trust_.version : header(chosen_).version;
}

bool ProgramSlots::confirmed() const {
  return chosen_ == kNone || mark(chosen_, kConfirmed) == Mark::Set;
}

UpdateStatus ProgramSlots::confirm() {
  return confirmed() || set_mark(chosen_, kConfirmed) ? UpdateStatus::Ok
                                                      : UpdateStatus::FlashFailed;
}

UpdateStatus ProgramSlots::reject() {
  return chosen_ == kNone || set_mark(chosen_, kRejected) ? UpdateStatus::Ok
                                                          : UpdateStatus::FlashFailed;
}

/// Ends the update.
UpdateStatus ProgramSlots::end(UpdateStatus status) {
  target_ = kNone;
  return finished_ = status;
}

UpdateStatus ProgramSlots::begin(size_t size) {
  if (!confirmed()) {
    return end(UpdateStatus::Unconfirmed);
  }
  if (size <= kSignedProgramHeaderSize) {
    return end(UpdateStatus::NotASignedProgram);
  }
  if (size > largest()) {
    return end(UpdateStatus::TooLarge);
  }
  const uint32_t known[] = {known_version(0), known_version(1)};
  highest_ = std::max(version(), std::max(known[0], known[1]));
  target_ = chosen_ != kNone ? 1 - chosen_ : known[1] < known[0];
  // The other slot keeps what only the slot to be erased knows.
  if (chosen_ != kNone && known[target_] > known[chosen_] && !record(chosen_, known[target_])) {
    return end(UpdateStatus::FlashFailed);
  }
  expected_ = size;
  received_ = 0;
  finished_ = UpdateStatus::WrongSize;
  // The header's page comes first: from here on the slot has no program.
  return flash_.erase(slot(target_)) ? UpdateStatus::Ok : end(UpdateStatus::FlashFailed);
}

UpdateStatus ProgramSlots::write(Span<const uint8_t> data) {
  if (target_ == kNone || data.size() > expected_ - received_) {
    return end(UpdateStatus::WrongSize);
  }
  for (const uint8_t byte : data) {
    if (received_ < kSignedProgramHeaderSize) {
      reinterpret_cast<uint8_t*>(&header_)[received_++] = byte;
      if (received_ == kSignedProgramHeaderSize) {
        const UpdateStatus status = check(header_, highest_);
        if (status != UpdateStatus::Ok) {
          return end(status);
        }
        if (header_.size != expected_ - kSignedProgramHeaderSize) {
          return end(UpdateStatus::WrongSize);
        }
      }
    } else if (!put(byte)) {
      return end(UpdateStatus::FlashFailed);
    }
  }
  return UpdateStatus::Ok;
}

/// Takes a byte of the program.
bool ProgramSlots::put(uint8_t byte) {
  pending_[(received_++ - kSignedProgramHeaderSize) % kMarkSize] = byte;
  return (received_ - kSignedProgramHeaderSize) % kMarkSize != 0 || flush();
}

/// Writes the pending bytes, which end at what was received, and erases the page that they begin.
bool ProgramSlots::flush() {
  const size_t written = received_ - kSignedProgramHeaderSize;
  const size_t used = (written - 1) % kMarkSize + 1;
  std::memset(pending_ + used, 0xFF, kMarkSize - used);
  const size_t offset = kProgramOffset + written - used;
  const uintptr_t address = slot(target_) + offset;
  return (offset % flash_.page_size != 0 || flash_.erase(address)) &&
      flash_.write(address, pending_, kMarkSize) &&
      std::memcmp(reinterpret_cast<const void*>(address), pending_, kMarkSize) == 0;
}

UpdateStatus ProgramSlots::finish() {
  if (target_ == kNone) {
    return finished_;
  }
  if (received_ != expected_) {
    return end(UpdateStatus::WrongSize);
  }
  if ((received_ - kSignedProgramHeaderSize) % kMarkSize != 0 && !flush()) {
    return end(UpdateStatus::FlashFailed);
  }
  if (!is_signed(header_, target_)) {
    return end(UpdateStatus::BadSignature);
  }
  // Until the last byte of the signature is there, the slot has no program.
  if (!flash_.write(slot(target_), &header_, sizeof(header_)) ||
      std::memcmp(&header(target_), &header_, sizeof(header_)) != 0) {
    return end(UpdateStatus::FlashFailed);
  }
  return end(UpdateStatus::Ok);
}

} // namespace torch_fusion
