"""What libreapi_cli can do, judged by the symbols that it exports, because the library has no version of its own.

Invariant: a feature is available exactly when every function declared for it is exported. The core and
`Feature.SUBGRAPH` came together with flux-sched 0.53 and are required; any other missing symbol disables its own
feature only. The signatures are those of flux-sched's reapi_cli.h; none changed from 0.33 to 0.54.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Feature(StrEnum):
    """An ability of a library; the value is what an error message calls it."""

    SUBGRAPH = "adding and removing subgraphs"
    MATCH_WITH_JOBID = "matching with a job id of the caller"
    MATCH_SATISFY = "the satisfiability call"
    UPDATE_ALLOCATE = "replaying an allocation"
    PARTIAL_CANCEL = "partial cancel"
    FIND = "find"
    STATUS = "vertex status"
    RANK_STATUS = "rank status"
    WITHOUT_ALLOCATING = "matching without allocating"


TYPES = "typedef struct reapi_cli_ctx reapi_cli_ctx_t; void free(void *memory);"

CORE = """
reapi_cli_ctx_t *reapi_cli_new(void);
void reapi_cli_destroy(reapi_cli_ctx_t *ctx);
int reapi_cli_initialize(reapi_cli_ctx_t *ctx, const char *rgraph, const char *options);
const char *reapi_cli_get_err_msg(reapi_cli_ctx_t *ctx);
void reapi_cli_clear_err_msg(reapi_cli_ctx_t *ctx);
int reapi_cli_match(reapi_cli_ctx_t *ctx, int match_op, const char *jobspec,
    uint64_t *jobid, _Bool *reserved, char **R, int64_t *at, double *ov);
int reapi_cli_cancel(reapi_cli_ctx_t *ctx, uint64_t jobid, _Bool noent_ok);
int reapi_cli_info(reapi_cli_ctx_t *ctx, uint64_t jobid,
    char **mode, _Bool *reserved, int64_t *at, double *ov);
"""

OF_FEATURE = {
    Feature.SUBGRAPH: """
int reapi_cli_add_subgraph(reapi_cli_ctx_t *ctx, const char *jgf);
int reapi_cli_remove_subgraph(reapi_cli_ctx_t *ctx, const char *path);
""",
    Feature.MATCH_WITH_JOBID: """
int reapi_cli_match_with_jobid(reapi_cli_ctx_t *ctx, int match_op, const char *jobspec,
    uint64_t jobid, _Bool *reserved, char **R, int64_t *at, double *ov);
""",
    Feature.MATCH_SATISFY: """
int reapi_cli_match_satisfy(reapi_cli_ctx_t *ctx, const char *jobspec, _Bool *sat, double *ov);
""",
    Feature.UPDATE_ALLOCATE: """
int reapi_cli_update_allocate(reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R,
    int64_t *at, double *ov, const char **R_out);
""",
    Feature.PARTIAL_CANCEL: """
int reapi_cli_partial_cancel(reapi_cli_ctx_t *ctx, uint64_t jobid, const char *R,
    _Bool noent_ok, _Bool *full_removal);
""",
    Feature.FIND: """
int reapi_cli_find(reapi_cli_ctx_t *ctx, const char *criteria, const char *format, char **R);
""",
    Feature.STATUS: """
int reapi_cli_set_status(reapi_cli_ctx_t *ctx, const char *path, int status);
int reapi_cli_get_status(reapi_cli_ctx_t *ctx, const char *path, int *status);
""",
    Feature.RANK_STATUS: """
int reapi_cli_set_rank_status(reapi_cli_ctx_t *ctx, const char *ranks, int status);
int reapi_cli_get_rank_status(reapi_cli_ctx_t *ctx, const char *rank, int *status);
""",
    Feature.WITHOUT_ALLOCATING: """
_Bool match_op_valid(int match_op);
""",
}


def functions(declarations: str) -> list[str]:
    """Return the names of the functions that a block of C declarations declares."""
    return re.findall(r"\b(\w+)\(", declarations)
