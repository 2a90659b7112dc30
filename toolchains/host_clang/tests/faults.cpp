// Makes the mistake that its argument names, for the sanitizers to find.

#include <climits>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::string mistake = argc > 1 ? argv[1] : "none";
  std::vector<int> values(4);
  const int* const beyond = values.data() + values.size();
  if (mistake == "overflow") {
    return *beyond;
  }
  if (mistake == "undefined") {
    return (INT_MAX - 4 + argc) + static_cast<int>(mistake.size());
  }
  std::cout << __FILE__ << " " << __DATE__ << "\n";
  return 0;
}
