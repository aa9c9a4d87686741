/* A stand-in for libreapi_cli that answers as set up and remembers how it was called.
 *
 * It behaves like the library where a caller could go wrong: error text is appended to one global string until
 * cleared, strings are malloc'ed for the caller to free, outputs stay untouched on failure. It counts calls that
 * overlap. Compiled with -DLACKS_<TOPIC> it lacks that topic's symbols, with -DWATCH_FREE it counts the strings that
 * were handed out and not freed (to be preloaded, so that its free comes before libc's).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MATCH_OPS
#define MATCH_OPS 6
#endif

typedef struct reapi_cli_ctx {
    int number;
} reapi_cli_ctx_t;

/* What the next call answers. */
static struct {
    int code;
    int errnum;
    char text[8192];
    bool hands_out;
} next;

/* What every successful call gives. */
static uint64_t out_jobid = 7;
static bool out_flag = true;
static int64_t out_at = 42;
static double out_overhead = 0.5;
static int out_status = 1;
static char out_string[8192] = "text";
static bool out_null = false;

static char error_text[65536];
static char last_call[16384];
static int errno_seen;
static int calls;
static int contexts;
static int contexts_made;
static bool refuse_context;
static unsigned delay;
static atomic_int inside;
static atomic_int overlaps;
static atomic_int handed_out;

#define WATCHED 64
static void *_Atomic outstanding[WATCHED];

void stub_reset (void)
{
    memset (&next, 0, sizeof next);
    out_jobid = 7;
    out_flag = true;
    out_at = 42;
    out_overhead = 0.5;
    out_status = 1;
    strcpy (out_string, "text");
    out_null = false;
    error_text[0] = last_call[0] = '\0';
    calls = errno_seen = 0;
    delay = 0;
    refuse_context = false;
    overlaps = handed_out = 0;
    contexts_made = 0;
}

void stub_fail (int code, int errnum, const char *text, bool hands_out)
{
    next.code = code;
    next.errnum = errnum;
    next.hands_out = hands_out;
    snprintf (next.text, sizeof next.text, "%s", text);
}

void stub_murmur (const char *text)
{
    stub_fail (0, 0, text, false);
}

void stub_leave_errno (int errnum)
{
    stub_fail (0, errnum, "", false);
}

void stub_give (uint64_t jobid, bool flag, int64_t at, double overhead, int status, const char *string)
{
    out_jobid = jobid;
    out_flag = flag;
    out_at = at;
    out_overhead = overhead;
    out_status = status;
    out_null = string == NULL;
    snprintf (out_string, sizeof out_string, "%s", string ? string : "");
}

void stub_refuse_context (void)
{
    refuse_context = true;
}

void stub_delay (unsigned microseconds)
{
    delay = microseconds;
}

const char *stub_last_call (void)
{
    return last_call;
}

const char *stub_error_text (void)
{
    return error_text;
}

int stub_calls (void)
{
    return calls;
}

int stub_errno_seen (void)
{
    return errno_seen;
}

int stub_contexts (void)
{
    return contexts;
}

int stub_overlaps (void)
{
    return overlaps;
}

int stub_handed_out (void)
{
    return handed_out;
}

int stub_outstanding (void)
{
    int count = 0;
    for (int i = 0; i < WATCHED; i++)
        count += outstanding[i] != NULL;
    return count;
}

static char *hand_out (const char *text)
{
    char *copy = strdup (text);
    handed_out++;
    for (int i = 0; i < WATCHED; i++) {
        void *empty = NULL;
        if (atomic_compare_exchange_strong (&outstanding[i], &empty, copy))
            break;
    }
    return copy;
}

#ifdef WATCH_FREE
static void (*libc_free) (void *);

void free (void *memory)
{
    if (!libc_free)
        libc_free = (void (*) (void *))dlsym (RTLD_NEXT, "free");
    for (int i = 0; memory && i < WATCHED; i++) {
        void *expected = memory;
        if (atomic_compare_exchange_strong (&outstanding[i], &expected, NULL))
            break;
    }
    libc_free (memory);
}
#endif

static void enter (void)
{
    if (atomic_fetch_add (&inside, 1) > 0)
        overlaps++;
    if (delay)
        usleep (delay);
}

static void leave (void)
{
    atomic_fetch_sub (&inside, 1);
}

/* Remember the call, and answer as set up. Returns with outputs still to be set if that is 0 or more. */
static int answer (char **string, const char *format, ...)
{
    int entered_with = errno;
    va_list arguments;
    enter ();
    errno_seen = entered_with;
    calls++;
    va_start (arguments, format);
    vsnprintf (last_call, sizeof last_call, format, arguments);
    va_end (arguments);
    strncat (error_text, next.text, sizeof error_text - strlen (error_text) - 1);
    int code = next.code, errnum = next.errnum;
    if (string && !out_null && (code >= 0 || next.hands_out))
        *string = hand_out (out_string);
    memset (&next, 0, sizeof next);
    leave ();
    errno = errnum ? errnum : entered_with;
    return code;
}

reapi_cli_ctx_t *reapi_cli_new (void)
{
    reapi_cli_ctx_t *ctx = NULL;
    enter ();
    if (!refuse_context) {
        ctx = malloc (sizeof *ctx);
        ctx->number = ++contexts_made;
        contexts++;
    }
    leave ();
    return ctx;
}

void reapi_cli_destroy (reapi_cli_ctx_t *ctx)
{
    enter ();
    contexts--;
    free (ctx);
    leave ();
}

const char *reapi_cli_get_err_msg (reapi_cli_ctx_t *ctx)
{
    enter ();
    char *text = hand_out (error_text);
    leave ();
    return text;
}

void reapi_cli_clear_err_msg (reapi_cli_ctx_t *ctx)
{
    enter ();
    error_text[0] = '\0';
    leave ();
}

int reapi_cli_initialize (reapi_cli_ctx_t *ctx, const char *rgraph, const char *options)
{
    return answer (NULL, "initialize %d|%s|%s", ctx->number, rgraph, options);
}

#ifndef LACKS_MATCH
int reapi_cli_match (reapi_cli_ctx_t *ctx, int op, const char *jobspec, uint64_t *jobid, bool *reserved, char **R,
                     int64_t *at, double *ov)
{
    int code = answer (R, "match %d|%d|%s", ctx->number, op, jobspec);
    if (code >= 0) {
        *jobid = out_jobid;
        *reserved = out_flag;
        *at = out_at;
        *ov = out_overhead;
    }
    return code;
}
#endif

#ifndef LACKS_MATCH_WITH_JOBID
int reapi_cli_match_with_jobid (reapi_cli_ctx_t *ctx, int op, const char *jobspec, uint64_t jobid, bool *reserved,
                                char **R, int64_t *at, double *ov)
{
    int code = answer (R, "match_with_jobid %d|%d|%s|%llu", ctx->number, op, jobspec, (unsigned long long)jobid);
    if (code >= 0) {
        *reserved = out_flag;
        *at = out_at;
        *ov = out_overhead;
    }
    return code;
}
#endif

#ifndef LACKS_MATCH_SATISFY
int reapi_cli_match_satisfy (reapi_cli_ctx_t *ctx, const char *jobspec, bool *sat, double *ov)
{
    int code = answer (NULL, "match_satisfy %d|%s", ctx->number, jobspec);
    *sat = code >= 0;
    *ov = out_overhead;
    return code;
}
#endif

#ifndef LACKS_UPDATE_ALLOCATE
int reapi_cli_update_allocate (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, int64_t *at, double *ov,
                               const char **R_out)
{
    int code = answer ((char **)R_out, "update_allocate %d|%llu|%s", ctx->number, (unsigned long long)jobid, R);
    if (code >= 0) {
        *at = out_at;
        *ov = out_overhead;
    }
    return code;
}
#endif

int reapi_cli_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, bool noent_ok)
{
    return answer (NULL, "cancel %d|%llu|%d", ctx->number, (unsigned long long)jobid, noent_ok);
}

#ifndef LACKS_PARTIAL_CANCEL
int reapi_cli_partial_cancel (reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R, bool noent_ok, bool *full)
{
    int code = answer (NULL, "partial_cancel %d|%llu|%s|%d", ctx->number, (unsigned long long)jobid, R, noent_ok);
    if (code >= 0)
        *full = out_flag;
    return code;
}
#endif

int reapi_cli_info (reapi_cli_ctx_t *ctx, uint64_t jobid, char **mode, bool *reserved, int64_t *at, double *ov)
{
    int code = answer (mode, "info %d|%llu", ctx->number, (unsigned long long)jobid);
    if (code >= 0) {
        *reserved = out_flag;
        *at = out_at;
        *ov = out_overhead;
    }
    return code;
}

#ifndef LACKS_FIND
int reapi_cli_find (reapi_cli_ctx_t *ctx, const char *criteria, const char *format, char **R)
{
    return answer (R, "find %d|%s|%s", ctx->number, criteria, format);
}
#endif

#ifndef LACKS_SUBGRAPH
int reapi_cli_add_subgraph (reapi_cli_ctx_t *ctx, const char *jgf)
{
    return answer (NULL, "add_subgraph %d|%s", ctx->number, jgf);
}

int reapi_cli_remove_subgraph (reapi_cli_ctx_t *ctx, const char *path)
{
    return answer (NULL, "remove_subgraph %d|%s", ctx->number, path);
}
#endif

static int give_status (int code, int *status)
{
    if (code >= 0)
        *status = out_status;
    return code;
}

#ifndef LACKS_STATUS
int reapi_cli_set_status (reapi_cli_ctx_t *ctx, const char *path, int status)
{
    return answer (NULL, "set_status %d|%s|%d", ctx->number, path, status);
}

int reapi_cli_get_status (reapi_cli_ctx_t *ctx, const char *path, int *status)
{
    return give_status (answer (NULL, "get_status %d|%s", ctx->number, path), status);
}
#endif

#ifndef LACKS_RANK_STATUS
int reapi_cli_set_rank_status (reapi_cli_ctx_t *ctx, const char *ranks, int status)
{
    return answer (NULL, "set_rank_status %d|%s|%d", ctx->number, ranks, status);
}

int reapi_cli_get_rank_status (reapi_cli_ctx_t *ctx, const char *rank, int *status)
{
    return give_status (answer (NULL, "get_rank_status %d|%s", ctx->number, rank), status);
}
#endif

#ifndef LACKS_WITHOUT_ALLOCATING
bool match_op_valid (int op)
{
    return op > 0 && op <= MATCH_OPS;
}
#endif
