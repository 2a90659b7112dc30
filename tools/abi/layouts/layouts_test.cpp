/// What it tests is tested by compiling what it links.
int main() {
  return 0;
}
