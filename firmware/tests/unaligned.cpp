/// Loads two words from an address that is not aligned, which LDRD does not allow.
int main() {
  const volatile unsigned long long* const odd_address =
      reinterpret_cast<const volatile unsigned long long*>(0x20000001);
  unsigned long long value;
  asm volatile("ldrd %Q0, %R0, [%1]" : "=r"(value) : "r"(odd_address));
  return static_cast<int>(value);
}
