/// Executes an instruction that is none.
int main() {
  asm volatile("udf #0");
  return 0;
}
