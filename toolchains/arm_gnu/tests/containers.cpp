#include <functional>
#include <string>
#include <vector>

size_t length(const std::string& name) {
  return name.size();
}

// Allocates, and refers to what C++'s library does when a length or a call is wrong.
int main() {
  std::vector<std::string> names{"one", "another"};
  names.push_back(std::to_string(names.size()));
  const std::function<size_t(const std::string&)> function = length;
  return static_cast<int>(function(names.at(2)));
}
