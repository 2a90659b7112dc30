/// Ends well, but says nothing of it.
#include "firmware/console.h"

int main() {
  console_text("done\n");
  return 0;
}
