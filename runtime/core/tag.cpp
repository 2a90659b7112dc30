#include <executorch/runtime/core/tag.h>

#include "runtime/platform/format.h"

namespace executorch::runtime {

size_t tag_to_string(Tag tag, char* buffer, size_t buffer_size) {
#if ET_ENABLE_ENUM_STRINGS
  return internal::format(buffer, buffer_size, "%s", tag_to_string(tag));
#else
  return internal::format(buffer, buffer_size, "%u", static_cast<unsigned>(tag));
#endif
}

} // namespace executorch::runtime
