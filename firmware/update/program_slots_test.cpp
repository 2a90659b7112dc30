#include "firmware/update/program_slots.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include <crypto_hash_sha512.h>
#include <crypto_sign_ed25519.h>
#include <randombytes.h>

// Keys are made from seeds here.
void randombytes_buf(void*, size_t) {
  std::abort();
}
}

using executorch::runtime::Span;
using torch_fusion::kSignedProgramHeaderSize;
using torch_fusion::ProgramSlots;
using torch_fusion::SignedProgramHeader;
using torch_fusion::UpdateStatus;

namespace {

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

using Bytes = std::vector<uint8_t>;

constexpr size_t kPage = 512;
constexpr size_t kSlot = 4 * kPage;

/// Flash whose power is cut at an operation, which then leaves some bits changed.
alignas(16) uint8_t memory[2 * kSlot];
size_t operations;
size_t cut_at;
struct PowerCut {};

/// Whether this operation is done whole; one that is cut off leaves a part.
bool powered() {
  return operations++ < cut_at;
}

bool erase(uintptr_t address) {
  auto* const page = reinterpret_cast<uint8_t*>(address);
  CHECK((page - memory) % kPage == 0 && page - memory < static_cast<ptrdiff_t>(sizeof(memory)));
  if (!powered()) {
    for (size_t i = 0; i < kPage; ++i) {
      page[i] |= static_cast<uint8_t>(0x5A ^ i * 37);
    }
    throw PowerCut();
  }
  std::memset(page, 0xFF, kPage);
  return true;
}

bool write(uintptr_t address, const void* data, size_t size) {
  auto* const to = reinterpret_cast<uint8_t*>(address);
  const auto* const from = static_cast<const uint8_t*>(data);
  CHECK(address % 8 == 0 && size % 8 == 0 && to + size <= memory + sizeof(memory));
  for (size_t i = 0; i < size; i += 8) {
    const bool zeros = std::count(from + i, from + i + 8, 0) == 8;
    // An STM32WB's double word takes new bits once, and zeros at any time.
    CHECK(zeros || std::count(to + i, to + i + 8, 0xFF) == 8);
    const bool whole = powered();
    for (size_t k = i; k < i + 8; ++k) {
      to[k] &= static_cast<uint8_t>(from[k] | (whole ? 0 : 0x5A ^ k * 37));
    }
    if (!whole) {
      throw PowerCut();
    }
  }
  return true;
}

uint8_t public_key[32];
uint8_t secret_key[64];

Bytes sign(uint32_t version, size_t size, const char* product = "leaf") {
  Bytes program(size);
  for (size_t i = 0; i < size; ++i) {
    program[i] = static_cast<uint8_t>(version * 31 + i);
  }
  SignedProgramHeader header = {};
  std::memcpy(header.magic, "TFSIGNED", 8);
  header.format = 1;
  header.version = version;
  header.size = static_cast<uint32_t>(size);
  std::strcpy(header.product, product);
  crypto_hash_sha512(header.digest, program.data(), size);
  crypto_sign_ed25519_detached(
      header.signature,
      nullptr,
      reinterpret_cast<const uint8_t*>(&header),
      offsetof(SignedProgramHeader, signature),
      secret_key);
  Bytes file(sizeof(header) + size);
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), program.data(), size);
  return file;
}

/// A device's start.
ProgramSlots start() {
  return ProgramSlots(
      {reinterpret_cast<uintptr_t>(memory), kSlot, kPage, 8, erase, write},
      {public_key, "leaf", 1});
}

/// Sends a file in parts of odd sizes.
UpdateStatus send(ProgramSlots& slots, const Bytes& file) {
  UpdateStatus status = slots.begin(file.size());
  for (size_t at = 0; at < file.size() && status == UpdateStatus::Ok; at += 37) {
    status = slots.write({file.data() + at, std::min<size_t>(37, file.size() - at)});
  }
  return status == UpdateStatus::Ok ? slots.finish() : status;
}

/// Starts, and returns the version that runs; its program must be whole.
uint32_t running(ProgramSlots& slots) {
  const Span<const uint8_t> program = slots.choose();
  for (size_t i = 0; i < program.size(); ++i) {
    CHECK(program[i] == static_cast<uint8_t>(slots.version() * 31 + i));
  }
  return slots.version();
}

uint32_t restarted() {
  ProgramSlots slots = start();
  return running(slots);
}

void install(const Bytes& file) {
  ProgramSlots slots = start();
  running(slots);
  CHECK(slots.confirm() == UpdateStatus::Ok);
  CHECK(send(slots, file) == UpdateStatus::Ok);
  ProgramSlots next = start();
  running(next);
  CHECK(next.confirm() == UpdateStatus::Ok);
}

void reset_flash() {
  std::memset(memory, 0xFF, sizeof(memory));
  cut_at = SIZE_MAX;
  operations = 0;
}

void test_updates_follow_one_another() {
  reset_flash();
  CHECK(restarted() == 1);
  for (uint32_t version = 2; version < 7; ++version) {
    install(sign(version, 100 * version + version % 3));
    CHECK(restarted() == version);
  }
}

void test_an_old_version_another_product_and_a_large_program_are_refused() {
  reset_flash();
  install(sign(5, 100));
  ProgramSlots slots = start();
  running(slots);
  CHECK(send(slots, sign(5, 100)) == UpdateStatus::OldVersion);
  CHECK(send(slots, sign(6, 100, "stem")) == UpdateStatus::OtherProduct);
  CHECK(send(slots, sign(6, kSlot - ProgramSlots::kProgramOffset + 1)) == UpdateStatus::TooLarge);
  CHECK(send(slots, Bytes(300)) == UpdateStatus::NotASignedProgram);
  CHECK(restarted() == 5);
  // The largest fits.
  CHECK(send(slots, sign(6, kSlot - ProgramSlots::kProgramOffset)) == UpdateStatus::Ok);
  CHECK(restarted() == 6);
}

void test_a_changed_byte_is_refused() {
  const Bytes file = sign(2, 50);
  for (size_t at = 0; at < file.size(); ++at) {
    reset_flash();
    Bytes changed = file;
    changed[at] ^= 4;
    ProgramSlots slots = start();
    running(slots);
    CHECK(send(slots, changed) != UpdateStatus::Ok);
    CHECK(restarted() == 1);
  }
}

void test_too_few_and_too_many_bytes_are_refused() {
  reset_flash();
  const Bytes file = sign(2, 50);
  ProgramSlots slots = start();
  running(slots);
  CHECK(slots.write({file.data(), 10}) == UpdateStatus::WrongSize);
  CHECK(slots.finish() == UpdateStatus::WrongSize);
  CHECK(slots.begin(file.size() - 1) == UpdateStatus::Ok);
  CHECK(slots.write({file.data(), file.size() - 1}) == UpdateStatus::WrongSize);
  CHECK(slots.begin(file.size()) == UpdateStatus::Ok);
  CHECK(slots.write({file.data(), file.size() - 1}) == UpdateStatus::Ok);
  CHECK(slots.finish() == UpdateStatus::WrongSize);
  CHECK(restarted() == 1);
}

void test_a_program_that_is_never_confirmed_is_given_up() {
  reset_flash();
  install(sign(2, 60));
  ProgramSlots slots = start();
  running(slots);
  CHECK(send(slots, sign(3, 60)) == UpdateStatus::Ok);
  for (size_t i = 0; i < ProgramSlots::kTries; ++i) {
    ProgramSlots trial = start();
    CHECK(running(trial) == 3 && !trial.confirmed());
    // The program that it would fall back to is not overwritten.
    CHECK(send(trial, sign(4, 60)) == UpdateStatus::Unconfirmed);
  }
  CHECK(restarted() == 2);
  install(sign(4, 60));
  CHECK(restarted() == 4);
}

void test_a_rejected_program_is_given_up_at_once() {
  reset_flash();
  ProgramSlots slots = start();
  running(slots);
  CHECK(send(slots, sign(3, 60)) == UpdateStatus::Ok);
  ProgramSlots trial = start();
  CHECK(running(trial) == 3);
  CHECK(trial.reject() == UpdateStatus::Ok);
  CHECK(running(trial) == 1);
  CHECK(restarted() == 1);
}

/// Cuts the power at each operation on flash of an update, from start to confirmation.
void test_a_power_cut_leaves_the_old_program_or_the_new_one() {
  size_t cuts = 0;
  for (bool done = false; !done; ++cuts) {
    reset_flash();
    install(sign(2, 700));
    operations = 0;
    cut_at = cuts;
    done = true;
    try {
      ProgramSlots slots = start();
      CHECK(running(slots) == 2);
      CHECK(send(slots, sign(3, 900)) == UpdateStatus::Ok);
      ProgramSlots next = start();
      CHECK(running(next) == 3);
      CHECK(next.confirm() == UpdateStatus::Ok);
    } catch (const PowerCut&) {
      done = false;
    }
    cut_at = SIZE_MAX;
    const uint32_t version = restarted();
    CHECK(version == 2 || version == 3);
    // The update goes on from there.
    install(sign(4, 800));
    CHECK(restarted() == 4);
  }
  std::printf("power cut at each of %zu operations\n", cuts - 1);
  CHECK(cuts > 100);
}

/// Starts, and gives up the program that runs, which was confirmed.
void reject_running() {
  ProgramSlots slots = start();
  running(slots);
  CHECK(slots.confirmed() && slots.reject() == UpdateStatus::Ok);
}

UpdateStatus sent_after_start(const Bytes& file) {
  ProgramSlots slots = start();
  running(slots);
  return send(slots, file);
}

/// Cuts the power at each operation on flash of an update that follows a rejected program, before
/// which another program ran, or the image's own.
void test_after_a_rejected_program_no_older_one_is_taken() {
  for (const bool has_other : {false, true}) {
    const uint32_t left = has_other ? 2 : 1;
    size_t cuts = 0;
    for (bool done = false; !done; ++cuts) {
      reset_flash();
      if (has_other) {
        install(sign(2, 700));
      }
      install(sign(6, 900));
      reject_running();
      CHECK(restarted() == left);
      operations = 0;
      cut_at = cuts;
      done = true;
      try {
        CHECK(sent_after_start(sign(5, 100)) == UpdateStatus::OldVersion);
        CHECK(sent_after_start(sign(6, 100)) == UpdateStatus::OldVersion);
        CHECK(sent_after_start(sign(7, 800)) == UpdateStatus::Ok);
      } catch (const PowerCut&) {
        done = false;
      }
      cut_at = SIZE_MAX;
      // An update that fails leaves the same as none.
      while (restarted() != left) {
      }
      CHECK(sent_after_start(sign(6, 100)) == UpdateStatus::OldVersion);
      CHECK(restarted() == left);
      install(sign(8, 100));
      CHECK(sent_after_start(sign(7, 100)) == UpdateStatus::OldVersion);
      CHECK(restarted() == 8);
    }
    std::printf("power cut at each of %zu operations after a rejected program\n", cuts - 1);
    CHECK(cuts > 100);
  }
}

void test_after_many_rejected_programs_no_older_one_is_taken() {
  reset_flash();
  install(sign(2, 100));
  uint32_t version = 3;
  for (; version < 7; ++version) {
    install(sign(version, 100));
    reject_running();
    CHECK(restarted() == 2);
  }
  // There is no room for a record of the last one, without which its slot is not erased.
  CHECK(sent_after_start(sign(version, 100)) == UpdateStatus::FlashFailed);
  CHECK(restarted() == 2);
  // Without the other program, the image's own runs, and updates are taken again.
  reject_running();
  CHECK(sent_after_start(sign(5, 100)) == UpdateStatus::OldVersion);
  install(sign(version, 100));
  CHECK(restarted() == version);
}

} // namespace

int main() {
  uint8_t seed[32] = {1, 2, 3};
  crypto_sign_ed25519_seed_keypair(public_key, secret_key, seed);
  test_updates_follow_one_another();
  test_an_old_version_another_product_and_a_large_program_are_refused();
  test_a_changed_byte_is_refused();
  test_too_few_and_too_many_bytes_are_refused();
  test_a_program_that_is_never_confirmed_is_given_up();
  test_a_rejected_program_is_given_up_at_once();
  test_a_power_cut_leaves_the_old_program_or_the_new_one();
  test_after_a_rejected_program_no_older_one_is_taken();
  test_after_many_rejected_programs_no_older_one_is_taken();
}
