#ifndef DLLM_BASE_H
#define DLLM_BASE_H
/* dllm/base.h -- types, status codes, constants.
 *
 * Every other header includes this one. Handles are pointers to opaque types. Constants are in
 * anonymous enums, so they are plain integers in every language; signatures use int32_t. The number
 * of a constant is never reused.
 */
#include <stdint.h>

#if defined(_WIN32) && defined(DLLM_BUILDING)
#define DLLM_API __declspec(dllexport)
#elif defined(_WIN32)
#define DLLM_API __declspec(dllimport)
#elif defined(__GNUC__)
#define DLLM_API __attribute__((visibility("default")))
#else
#define DLLM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dllm_error dllm_error;
typedef struct dllm_buffer dllm_buffer;
typedef struct dllm_options dllm_options;
typedef struct dllm_event dllm_event;
typedef struct dllm_task dllm_task;
typedef struct dllm_engine dllm_engine;
typedef struct dllm_tensor dllm_tensor;
typedef struct dllm_source dllm_source;
typedef struct dllm_model dllm_model;
typedef struct dllm_tokenizer dllm_tokenizer;
typedef struct dllm_answer dllm_answer;
typedef struct dllm_dataset dllm_dataset;
typedef struct dllm_loader dllm_loader;
typedef struct dllm_batch dllm_batch;
typedef struct dllm_schedule dllm_schedule;
typedef struct dllm_objective dllm_objective;
typedef struct dllm_trainer dllm_trainer;
typedef struct dllm_decoder dllm_decoder;
typedef struct dllm_generator dllm_generator;
typedef struct dllm_queue dllm_queue;
typedef struct dllm_checkpoint dllm_checkpoint;
typedef struct dllm_lua dllm_lua;

/** What a call that can fail returns: one of the status constants, 0 is success. */
typedef int32_t dllm_status;

/** The callback type of events (hooks of a host are in dllm/host.h).
 *
 * A callback runs on the thread that made the call, between steps, and never after the call.
 * `event` and every array read from it are valid until the callback returns. A callback returns
 * DLLM_CONTINUE, DLLM_STOP (the call finishes with DLLM_OK) or DLLM_FAIL (the call returns
 * DLLM_CALLBACK_FAILED). Any other number counts as DLLM_FAIL.
 *
 * A callback may call only functions whose block has Threads any or callback. It may release the
 * object whose call it runs in. That call continues until the callback's result or its work ends
 * it, and destroys the object when it returns.
 */
typedef int32_t (*dllm_event_fn)(const dllm_event *event, void *user_data);

/** Status codes. 0 to 16 are the canonical codes, as in PJRT; codes of dllm start at 100. */
enum {
  DLLM_OK = 0,
  DLLM_CANCELLED = 1,           /* the task was cancelled */
  DLLM_UNKNOWN = 2,             /* an exception of an unexpected type */
  DLLM_INVALID_ARGUMENT = 3,    /* NULL where not allowed, out of range, wrong type, wrong handle */
  DLLM_DEADLINE_EXCEEDED = 4,   /* the task's deadline passed */
  DLLM_NOT_FOUND = 5,           /* no such key, name, file; the hint names the nearest */
  DLLM_ALREADY_EXISTS = 6,      /* a name or a folder is taken */
  DLLM_PERMISSION_DENIED = 7,   /* refused by the system or the sandbox */
  DLLM_RESOURCE_EXHAUSTED = 8,  /* memory, disk, or a limit that was set */
  DLLM_FAILED_PRECONDITION = 9, /* right call, wrong state */
  DLLM_ABORTED = 10,            /* the object is unusable after an earlier failure; restore it */
  DLLM_OUT_OF_RANGE = 11,       /* end of data, index past the end, array too small */
  DLLM_UNIMPLEMENTED = 12,      /* not supported by this build or engine */
  DLLM_INTERNAL = 13,           /* a bug in dllm */
  DLLM_UNAVAILABLE = 14,        /* a device or a peer cannot be reached now */
  DLLM_DATA_LOSS = 15,          /* a file is damaged */
  DLLM_UNAUTHENTICATED = 16,
  DLLM_CALLBACK_FAILED = 100, /* a callback returned DLLM_FAIL */
  DLLM_SCRIPT_FAILED = 101    /* a Lua script raised an error */
};

/** What a callback returns. */
enum { DLLM_CONTINUE = 0, DLLM_STOP = 1, DLLM_FAIL = 2 };

/** State of a canvas position. */
enum {
  DLLM_MASKED = 0,      /* open */
  DLLM_PROVISIONAL = 1, /* has a token that a later step may change */
  DLLM_FINAL = 2,       /* decided */
  DLLM_FIXED = 3        /* given by the caller */
};

/** Why an answer is over (dllm/answer.h). */
enum {
  DLLM_ANSWER_OPEN = 0,      /* it is not over: a position is masked or provisional */
  DLLM_ANSWER_FULL = 1,      /* every position is decided */
  DLLM_ANSWER_END_TOKEN = 2, /* an end token is decided, and every position before it */
  DLLM_ANSWER_STOP_TEXT = 3  /* the text of the decided beginning contains a stop text */
};

/** Kinds of event; dllm/event.h lists the keys of each. */
enum {
  DLLM_EVENT_PROGRESS = 1,
  DLLM_EVENT_TRAIN_STEP = 2,
  DLLM_EVENT_EVAL = 3,
  DLLM_EVENT_DECODE_STEP = 4,
  DLLM_EVENT_BLOCK = 5,
  DLLM_EVENT_CHECKPOINT = 6,
  DLLM_EVENT_TEXT = 7,
  DLLM_EVENT_ANSWER = 8
};

/** Log levels, and where log lines go. */
enum { DLLM_LOG_DEBUG = 1, DLLM_LOG_INFO = 2, DLLM_LOG_WARN = 3, DLLM_LOG_ERROR = 4 };
enum { DLLM_SINK_NONE = 0, DLLM_SINK_STDERR = 1, DLLM_SINK_QUEUE = 2 };

/** Element types of arrays. U32 is for keys of the random generator. */
enum {
  DLLM_F32 = 1,
  DLLM_F16 = 2,
  DLLM_BF16 = 3,
  DLLM_F64 = 4,
  DLLM_I32 = 5,
  DLLM_I64 = 6,
  DLLM_U8 = 7,
  DLLM_I8 = 8,
  DLLM_U32 = 9
};

#ifdef __cplusplus
}
#endif
#endif
