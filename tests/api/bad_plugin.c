/* A plugin that does not do what plugins should. BAD_PLUGIN chooses what it does when it is loaded:
 * abort, hang, exit, flood, or (unset) return no table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) const void* GetPjrtApi(void);

const void* GetPjrtApi(void) {
  const char* what = getenv("BAD_PLUGIN");
  if (what == NULL) return NULL;
  fputs("Check failed: bad_plugin is bad\n", stderr);
  if (strcmp(what, "abort") == 0) abort();
  if (strcmp(what, "exit") == 0) exit(7);
  while (strcmp(what, "hang") == 0) sleep(1);
  while (strcmp(what, "flood") == 0) fputs("noise noise noise noise noise noise noise\n", stderr);
  return NULL;
}
