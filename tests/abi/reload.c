/* Load, use, close, load again; a thread that outlives the close.   abi_reload LIBRARY
 * The host is C and uses the library through dlopen alone, as most hosts do. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef int32_t (*version_fn)(void);
typedef const char* (*name_fn)(int32_t);
typedef void* (*new_fn)(void);
typedef void (*release_fn)(void*);
typedef int32_t (*options_fn)(const char*, void**, void*);

static int failures;

static void check(int good, const char* what) {
  printf("%s - %s\n", good ? "ok" : "not ok", what);
  if (!good) failures++;
}

/* ISO C has no cast from void * to a function; a copy of the bits is the way POSIX blesses. */
static void find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) {
    printf("not ok - %s: %s\n", name, dlerror());
    failures++;
  }
  memcpy(function, &symbol, sizeof symbol);
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) printf("not ok - dlopen: %s\n", dlerror());
  return library;
}

static void use(void* library) {
  version_fn abi_version;
  name_fn status_name;
  new_fn error_new;
  release_fn error_release, options_release;
  options_fn options_new;
  void *err, *options = NULL;
  find(library, "dllm_abi_version", &abi_version);
  find(library, "dllm_status_name", &status_name);
  find(library, "dllm_error_new", &error_new);
  find(library, "dllm_error_release", &error_release);
  find(library, "dllm_options_new", &options_new);
  find(library, "dllm_options_release", &options_release);
  if (failures > 0) return;
  check(abi_version() == 1, "the ABI is 1");
  check(strcmp(status_name(5), "not_found") == 0, "status 5 has its name");
  err = error_new();
  check(options_new("engine", &options, err) == 0, "options are made");
  check(options_new("no_such_kind", &options, err) == 5, "an unknown kind is not found");
  options_release(options);
  error_release(err);
}

/* Keeps calling while the main thread closes its handle. */
static name_fn late_name;
static volatile int closed;

static void* late(void* unused) {
  struct timespec moment = {0, 1000000};
  int calls_after = 0;
  (void)unused;
  while (calls_after < 50) {
    if (late_name(0)[0] != 'o') return NULL;
    if (closed) calls_after++;
    nanosleep(&moment, NULL);
  }
  return &late_name;
}

int main(int argc, char** argv) {
  void *library, *survived = NULL;
  pthread_t thread;
  int round;
  if (argc != 2) return 2;
  for (round = 0; round < 3; round++) {
    library = open_library(argv[1]);
    if (library == NULL) return 1;
    use(library);
    check(dlclose(library) == 0, "the library closes");
  }
  library = open_library(argv[1]);
  if (library == NULL) return 1;
  find(library, "dllm_status_name", &late_name);
  if (failures > 0 || pthread_create(&thread, NULL, late, NULL) != 0) return 1;
  check(dlclose(library) == 0, "the library closes under a thread");
  closed = 1;
  pthread_join(thread, &survived);
  check(survived != NULL, "the thread outlives the close");
  return failures == 0 ? 0 : 1;
}
