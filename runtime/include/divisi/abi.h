/* The C ABI between generated programs and the runtime, and the only header that both sides share.
 *
 * A generated object defines `divisi_program`; the runtime's main() reads it, chooses the program for the number of
 * ranks, owns the arena and calls the tasks.
 * Generated tasks call back the services below. Every service call carries a constant parameter block (its address is a
 * stable key for caches) and an array of buffer addresses. Services do not return errors: a failure is recorded in the
 * context (first one wins), later services become no-ops, and the caller of the task reports it.
 */
#ifndef DIVISI_ABI_H
#define DIVISI_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIVISI_ABI_VERSION 7
/* Every buffer starts at a multiple of this many bytes in the arena. */
#define DIVISI_ALIGNMENT 64
/* Alignment of the workspaces of GPUs' libraries. */
#define DIVISI_WORKSPACE_ALIGNMENT 256

/* Owned by the runtime; opaque to generated code. */
typedef struct DivisiContext DivisiContext;

/* A compiled loop nest for a CPU. Works on [begin, end) of its outermost parallel extent. */
typedef void (*DivisiLoop)(void *const *buffers, int64_t begin, int64_t end);

/* A kernel, with its code for each kind of device of the program. */
typedef struct DivisiKernel {
  const char *name; /* of its function in the device code */
  int64_t buffer_count;
  DivisiLoop loop; /* CPU; null without */
  int64_t extent, grain;
  int64_t blocks, threads; /* GPU; threads of a block */
} DivisiKernel;

/* The kernels for GPUs of one architecture and its successors. */
typedef struct DivisiDeviceCode {
  int64_t architecture; /* compute capability: 80, 90 */
  const char *text;     /* PTX, ends with a zero */
  uint64_t bytes;
} DivisiDeviceCode;

/* Straight-line code of one stage: a whole step, or a part of it for one microbatch (the manifest's `tables` have the
 * order). `slot` is the buffer slot of a microbatch in flight: it has the values that later tasks of the microbatch
 * read. All addresses are those of the computing device; tasks only pass them on. */
typedef void (*DivisiTask)(DivisiContext *context, char *arena, char *slot, const char *constants);

/* What an executable does on one number of ranks. `manifest` is JSON (schema: runtime/README.md). */
typedef struct DivisiProgram {
  uint64_t abi_version;
  uint64_t arena_bytes; /* of the stage with the largest arena */
  const char *manifest;
  uint64_t manifest_bytes;
  const char *skeleton; /* serialized ONNX ModelProto without the state's initializers; the fields of its
                           TrainingInfoProto follow, as many bytes as the manifest's training_info says */
  uint64_t skeleton_bytes;
  uint64_t task_count;
  const DivisiTask *tasks; /* the manifest's `tasks` has their names, in the same order */
  const char *constants;   /* tensors of tasks that are not in the arena */
  uint64_t constant_bytes;
  uint64_t has_cpu; /* whether kernels have loops */
  uint64_t device_code_count;
  const DivisiDeviceCode *device_code;
  const struct DivisiProgram *next; /* of the same executable, for another number of ranks; null after the last */
} DivisiProgram;

extern const DivisiProgram divisi_program; /* the first one */

/* Element types as they appear in parameter blocks. Libraries compute in the first four. */
enum DivisiType {
  DIVISI_F32 = 0,
  DIVISI_F64 = 1,
  DIVISI_BF16 = 2,
  DIVISI_F16 = 3,
  DIVISI_I64 = 4,
  DIVISI_I32 = 5,
  DIVISI_I16 = 6,
  DIVISI_I8 = 7,
  DIVISI_U8 = 8,
};

/* Values that are computed on demand (bits). */
enum DivisiWhen {
  DIVISI_WHEN_GRAD_NORMS = 1, /* L2 norms of gradients by parameter */
  DIVISI_WHEN_METRICS = 2,    /* accuracy of a training step */
  DIVISI_WHEN_PREDICTIONS = 4, /* outputs of the model in an evaluation */
};

/* Whether values are computed in this step: non-zero if so. Called before each call for such values, which is made only
 * then. */
int32_t divisi_wants(DivisiContext *context, int32_t when);

/* Runs a kernel: on a CPU over [0, extent), split over the pool's threads in pieces of at least `grain`, if they are faster than one. */
void divisi_launch(DivisiContext *context, const DivisiKernel *kernel, void *const *buffers);

/* c[i][j] = op(a[i][j]) * op(b[i][j]) for i < batch0, j < batch1. Strides in elements; row-major matrices.
 * op(a) is m x k, op(b) is k x n, c is m x n. Operand types are `type`, c is `result_type`. Buffers: a, b, c, and the
 * workspace of a GPU's library, if it has bytes. */
typedef struct DivisiGemm {
  int64_t batch0, batch1, m, n, k;
  int64_t transpose_a, transpose_b;
  int64_t lda, ldb, ldc;
  int64_t a0, a1, b0, b1, c0, c1; /* strides of the two batch dimensions */
  int64_t type, result_type;
  int64_t accumulate; /* c += instead of c = */
  int64_t tf32;       /* operands in F32 may be rounded to TF32 */
  int64_t workspace;  /* bytes */
} DivisiGemm;

/* A GEMM x = op(a) op(b) of dense row-major matrices, op(a) m x k and op(b) k x n, with an epilogue:
 *   BIAS, RELU, GELU (its tanh approximation): c = f(x + operand), with a bias operand[n]. GELU may have a second result,
 *     its argument [m, n], for the gradient.
 *   GELU_GRAD: c = x * gelu'(operand), where the operand is that second result.
 *   SUM_A, SUM_B: c = x; the second result is op(a) summed along k [m], or op(b) [n].
 * Buffers: a, b, the operand if there is one, c, the second result if there is one, and the workspace of a GPU's
 * library, if it has bytes. All are of `type`: F32, F16 or BF16, accumulated in F32. */
enum DivisiEpilogue {
  DIVISI_EPILOGUE_BIAS,
  DIVISI_EPILOGUE_RELU,
  DIVISI_EPILOGUE_GELU,
  DIVISI_EPILOGUE_GELU_GRAD,
  DIVISI_EPILOGUE_SUM_A,
  DIVISI_EPILOGUE_SUM_B
};
typedef struct DivisiGemmEpilogue {
  int64_t m, n, k;
  int64_t transpose_a, transpose_b;
  int64_t type, tf32; /* as in DivisiGemm */
  int64_t epilogue;   /* enum DivisiEpilogue */
  int64_t has_operand, has_second;
  int64_t workspace; /* bytes */
} DivisiGemmEpilogue;

/* Convolution family over 1 to 3 spatial dimensions.
 * forward (x, w, y): y = conv(x, w); input_grad (dy, w, dx); filter_grad (x, dy, dw).
 * x: [batch, in_channels, in...], y: [batch, out_channels, out...], or channels last for both when `channels_last`;
 * w always [out_channels, in_channels / groups, kernel...]. Then the workspace of a GPU's library, if it has bytes; if
 * an algorithm needs more, the runtime allocates it. */
typedef struct DivisiConv {
  int64_t spatial, batch, groups, in_channels, out_channels;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_low[3], pad_high[3];
  int64_t channels_last;
  int64_t type;
  int64_t tf32; /* as in DivisiGemm */
  int64_t workspace; /* bytes */
} DivisiConv;

/* Attention on 16-bit numbers, accumulated in F32. For each of batch * heads, with S = scale * q k^T + bias, where
 * causal attention masks the keys behind the query's own index:
 *   o = softmax(S) v, and stats = log(sum of e^S along the keys), from which the gradient recomputes softmax(S).
 * q, o: [batch, queries, heads, depth]; k, v: [batch, keys, heads, depth]; stats: F32 [batch, heads, queries];
 * bias: F32 [bias_batch, bias_heads, bias_queries, keys], each of the first three 1 or as many as there are.
 * Buffers of divisi_attention: q, k, v, bias if there is one, o, stats; of divisi_attention_grad: q, k, v, bias if
 * there is one, o, stats, the gradient of o, and those of q, k, v, which it writes. Then the workspace, if it has
 * bytes. */
typedef struct DivisiAttention {
  int64_t batch, heads, queries, keys, depth;
  int64_t causal, has_bias, bias_batch, bias_heads, bias_queries;
  int64_t scale; /* the bits of a double */
  int64_t type;  /* of all but bias and stats */
  int64_t workspace; /* bytes; if a library needs more, the runtime allocates it */
} DivisiAttention;

/* The k largest (or smallest) of each run along the middle dimension of [outer, extent, inner], sorted; equal values
 * keep the order of their indices. Buffers: x, values [outer, k, inner], indices (int64) of the same shape. `width` is
 * the element's size in bytes; kind 0 float, 1 signed, 2 unsigned. */
typedef struct DivisiTopK {
  int64_t outer, extent, inner, k, largest, kind, width;
} DivisiTopK;

/* Copies `bytes` bytes. Buffers: source, destination. */
typedef struct DivisiCopy {
  int64_t bytes;
} DivisiCopy;

/* Communication between the ranks of a mesh (manifest: `mesh`). A group is the ranks that differ only in their indices
 * along `axes`; its members are ordered by these indices, the first axis major. A collective has one or more parts,
 * each with an operand and a result, which are sent together.
 *
 * A part of all_gather and reduce_scatter is [outer, first, inner] (middle = second = 1), and the dimension `first` is
 * the one that is gathered or scattered. all_to_all works on two dimensions of [outer, first, middle, second, inner].
 * Sizes are the operand's. all_reduce, permute and all_gather: the operand is what a rank has; n is the group's size.
 *   all_reduce      [e]      -> [e]       combined over the group; the same bits on all ranks
 *   all_gather      [o,f,i]  -> [o,n*f,i] shards in the group's order
 *   reduce_scatter  [o,f,i]  -> [o,f/n,i] combined; member r keeps the r-th shard
 *   all_to_all      gathers the dimension `first` (n times longer) and scatters `second` (n times shorter);
 *                   `backward`: scatters `first` and gathers `second`
 *   permute         member r gets the operand of member r - shift, or zeros if there is no such member
 */
enum DivisiCollectiveKind {
  DIVISI_ALL_REDUCE = 0,
  DIVISI_ALL_GATHER = 1,
  DIVISI_REDUCE_SCATTER = 2,
  DIVISI_ALL_TO_ALL = 3,
  DIVISI_PERMUTE = 4,
};
enum DivisiReduction {
  DIVISI_SUM = 0,
  DIVISI_MAX = 1,
  DIVISI_MIN = 2,
};
#define DIVISI_MAX_AXES 6
typedef struct DivisiPart {
  int64_t outer, first, middle, second, inner;
} DivisiPart;
typedef struct DivisiCollective {
  int64_t id; /* number of this collective, unique in the program: its name is in the manifest's `collectives` */
  int64_t kind, reduction, type;
  int64_t backward; /* all_to_all */
  int64_t shift;    /* permute */
  int64_t axis_count, axes[DIVISI_MAX_AXES];
  int64_t part_count;
  DivisiPart parts[]; /* part_count of them */
} DivisiCollective;
/* Starts a collective: operands of all parts, then results of all parts. The operands must not change and the results
 * must not be read before divisi_await. Collectives complete in the order in which they are started. */
void divisi_collective(DivisiContext *context, const DivisiCollective *params, void *const *buffers);

/* One message between two stages of a pipeline: to or from the rank that differs from this one only in its index along
 * the mesh's axis "stage". If a stage lacks an axis that the other one has, a rank may have several peers: each rank of
 * the receiving stage gets its shard, every byte of it once, from ranks with the same indices along the axes that both
 * stages have, where nothing is sharded along them. Where several senders have what it needs, receivers take it from
 * different ones. Messages of one id arrive in the order in which they are sent; those of different ids are
 * independent. Buffers: the sent data, or its destination.
 *
 * With `dims` the stages shard the tensor differently: along the axes `from` (major to minor) on the sending stage,
 * along `to` on the receiving one. Without, both have it alike. */
typedef struct DivisiTransferDim {
  int64_t extent; /* of the whole tensor in elements, of its last dimension in bytes */
  int64_t from_count, from[DIVISI_MAX_AXES];
  int64_t to_count, to[DIVISI_MAX_AXES];
} DivisiTransferDim;
typedef struct DivisiTransfer {
  int64_t id;    /* equal on both sides, unique among transfers and collectives */
  int64_t stage; /* index of the other side along the axis "stage"; may be this rank's own */
  int64_t bytes; /* of this rank's buffer */
  int64_t dim_count;
  DivisiTransferDim dims[]; /* dim_count of them */
} DivisiTransfer;
/* Returns when the buffer may be changed, because the message was copied. */
void divisi_send(DivisiContext *context, const DivisiTransfer *params, void *const *buffers);
/* Starts to receive; divisi_await waits for it. Does not delay communication that is started later. */
void divisi_receive(DivisiContext *context, const DivisiTransfer *params, void *const *buffers);

/* Waits until the last collective or receive that was started with this `id` is complete. No buffers. */
typedef struct DivisiAwait {
  int64_t id;
} DivisiAwait;
void divisi_await(DivisiContext *context, const DivisiAwait *params, void *const *buffers);

/* What a device computes with a parameter block: each call(name, Block) is a service divisi_name. */
#define DIVISI_CALLS(call)                                                                                             \
  call(copy, DivisiCopy) call(gemm, DivisiGemm) call(gemm_epilogue, DivisiGemmEpilogue)                                \
  call(conv_forward, DivisiConv) call(conv_input_grad, DivisiConv) call(conv_filter_grad, DivisiConv)                  \
  call(attention, DivisiAttention) call(attention_grad, DivisiAttention) call(top_k, DivisiTopK)
#define DIVISI_DECLARE(name, Block)                                                                                    \
  void divisi_##name(DivisiContext *context, const Block *params, void *const *buffers);
DIVISI_CALLS(DIVISI_DECLARE)
#undef DIVISI_DECLARE

/* All other services. */
#define DIVISI_SERVICES(service)                                                                                       \
  service(wants) service(launch) service(collective) service(send) service(receive) service(await)

#ifdef __cplusplus
}
#endif
#endif
