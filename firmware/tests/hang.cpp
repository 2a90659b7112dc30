/// Prints something and never ends.
#include "firmware/console.h"

int main() {
  console_text("waiting\n");
  for (volatile bool forever = true; forever;) {
  }
  return 0;
}
