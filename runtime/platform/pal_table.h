#pragma once

#include <executorch/runtime/platform/platform.h>

namespace executorch::runtime::internal {

/**
 * The table that register_pal() changes. It is linked only into images that call register_pal() or
 * get_pal_impl(); in all others its address is null, and the hooks call et_pal_*() directly, so
 * that unused ones are not linked.
 */
extern ET_WEAK PalImpl pal_table;

} // namespace executorch::runtime::internal
