/// Its assertions are the linked library's static ones: compiling it is the test.
int main() {
  return 0;
}
