#include "check.h"

int failures;

void check_line(int good, const char* what, const char* file, int line) {
  if (good) {
    printf("ok - %s\n", what);
    return;
  }
  failures++;
  printf("not ok - %s (%s:%d)\n", what, file, line);
}

void need_line(dllm_status status, const dllm_error* err, const char* what, const char* file,
               int line) {
  if (status == DLLM_OK) return;
  printf("not ok - %s gave %s: %s %s (%s:%d)\n", what, dllm_status_name(status),
         dllm_error_message(err), dllm_error_hint(err), file, line);
  exit(1);
}
