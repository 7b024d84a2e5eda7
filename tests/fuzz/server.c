/* The whole server engine under programs of any bytes; see server_program.h. */
#include "fuzz/server_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  run_program(data, size);
  return 0;
}
