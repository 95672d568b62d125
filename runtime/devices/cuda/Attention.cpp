#include "runtime/devices/cuda/Attention.h"
#include "runtime/core/Status.h"

#include <bit>
#include <limits>
#include <optional>
#include <stdexcept>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
using Dims = OperationGraph::Dims;
using Tensor = OperationGraph::Tensor;
using Pointwise = OperationGraph::Pointwise;
using Reduction = OperationGraph::Reduction;

/// Alignment of the parts of the workspace.
constexpr size_t workspaceAlignment = 256;
size_t aligned(size_t bytes) { return (bytes + workspaceAlignment - 1) / workspaceAlignment * workspaceAlignment; }

Element halfElementOf(int64_t type) {
  if (type != DIVISI_BF16 && type != DIVISI_F16)
    throw std::runtime_error("attention in cuDNN is of numbers of 16 bits");
  return type == DIVISI_BF16 ? Element::BF16 : Element::F16;
}

/// The common part of attention and its gradient. Tensors in memory are created in the order of the buffers.
struct AttentionGraph {
  AttentionGraph(const GraphFunctions &dnn, const DivisiAttention &params)
      : a(params), element(halfElementOf(params.type)), graph(dnn), q(rows(a.queries)),
        kTransposed(graph.memory(element, OperationGraph::exchanged(dims(a.keys)),
                                 OperationGraph::exchanged(strides(a.keys)))) {}

  Dims dims(int64_t length) const { return {a.batch, a.heads, length, a.depth}; }
  /// Its layout in memory is [batch, length, heads, depth].
  Dims strides(int64_t length) const { return {length * a.heads * a.depth, a.depth, a.heads * a.depth, 1}; }
  Tensor rows(int64_t length) { return graph.memory(element, dims(length), strides(length)); }
  Dims perQuery() const { return {a.batch, a.heads, a.queries, 1}; }

  /// scale * q k^T + bias
  Tensor scores(const Tensor *bias, const Tensor &scale) {
    Tensor products = graph.matmul(q, kTransposed);
    Tensor scaled = graph.pointwise(Pointwise::Multiply, products, &scale);
    return bias ? graph.pointwise(Pointwise::Add, scaled, bias) : scaled;
  }
  /// Replaces scores by minus infinity where the key comes after the query.
  Tensor causal(const Tensor &scores) {
    if (!a.causal)
      return scores;
    Tensor nothing = graph.number(-std::numeric_limits<float>::infinity());
    Tensor query = graph.index(scores, 2), key = graph.index(scores, 3);
    Tensor kept = graph.pointwise(Pointwise::GreaterOrEqual, query, &key, Element::Bool);
    return graph.select(kept, scores, nothing);
  }
  Tensor number(double value) { return graph.number(static_cast<float>(value)); }
  double scale() const { return std::bit_cast<double>(a.scale); }
  Dims biasDims() const { return {a.bias_batch, a.bias_heads, a.bias_queries, a.keys}; }

  const DivisiAttention &a;
  Element element;
  OperationGraph graph;
  Tensor q, kTransposed;
};

void forward(AttentionGraph &g) {
  OperationGraph &graph = g.graph;
  Tensor v = g.rows(g.a.keys);
  std::optional<Tensor> bias;
  if (g.a.has_bias)
    bias = graph.memory(Element::F32, g.biasDims());
  Tensor o = g.rows(g.a.queries), stats = graph.memory(Element::F32, g.perQuery());

  Tensor s = g.causal(g.scores(bias ? &*bias : nullptr, g.number(g.scale())));
  Tensor most = graph.reduce(Reduction::Max, s);
  Tensor powers = graph.pointwise(Pointwise::Exp, graph.pointwise(Pointwise::Subtract, s, &most));
  Tensor sum = graph.reduce(Reduction::Add, powers);
  Tensor log = graph.pointwise(Pointwise::Log, sum);
  graph.pointwise(Pointwise::Add, most, &log, stats);
  Tensor weights = graph.pointwise(Pointwise::Divide, powers, &sum, g.element);
  graph.matmul(weights, v, o);
}

void gradient(AttentionGraph &g) {
  OperationGraph &graph = g.graph;
  Tensor vTransposed = graph.memory(g.element, OperationGraph::exchanged(g.dims(g.a.keys)),
                                    OperationGraph::exchanged(g.strides(g.a.keys)));
  std::optional<Tensor> bias;
  if (g.a.has_bias)
    bias = graph.memory(Element::F32, g.biasDims());
  Tensor o = g.rows(g.a.queries), stats = graph.memory(Element::F32, g.perQuery()), dO = g.rows(g.a.queries);
  Tensor dQ = g.rows(g.a.queries), dK = g.rows(g.a.keys), dV = g.rows(g.a.keys);
  Tensor inner = graph.memory(Element::F32, g.perQuery()); // the inner product of o and its gradient
  Tensor scale = g.number(g.scale()), one = g.number(1);

  Tensor products = graph.pointwise(Pointwise::Multiply, dO, &o);
  graph.pointwise(Pointwise::Multiply, graph.reduce(Reduction::Add, products), &one, inner);
  Tensor s = graph.pointwise(Pointwise::Subtract, g.scores(bias ? &*bias : nullptr, scale), &stats);
  Tensor weights = graph.pointwise(Pointwise::Exp, g.causal(s));
  graph.matmul(graph.transpose(weights, g.element), dO, dV);
  // The gradient of the scores, without and with their scale.
  Tensor difference = graph.pointwise(Pointwise::Subtract, graph.matmul(dO, vTransposed), &inner);
  Tensor unscaled = graph.pointwise(Pointwise::Multiply, difference, &weights);
  Tensor dS = graph.pointwise(Pointwise::Multiply, unscaled, &scale);
  graph.matmul(graph.transpose(dS, g.element), g.q, dK);
  graph.matmul(dS, graph.transpose(g.kTransposed, g.element), dQ);
}
} // namespace

std::unique_ptr<GraphPlan> cuda::planAttention(const GraphFunctions &dnn, AttentionKind kind,
                                               const DivisiAttention &params, const PlanTarget &target) {
  AttentionGraph graph(dnn, params);
  bool isForward = kind == AttentionKind::Forward;
  isForward ? forward(graph) : gradient(graph);
  return graph.graph.plan(target, isForward ? "plan attention" : "plan the gradient of attention");
}

Attention::Attention(const Driver &driver, Stream stream) : driver(driver), dnn(GraphFunctions::attention, &handle) {
  dnn.check(dnn.setStream(handle, stream), "use the stream");
}

Attention::~Attention() {
  for (auto &ofKind : plans)
    ofKind.clear();
  dnn.destroy(handle);
}

Attention::Plan &Attention::plan(AttentionKind kind, const DivisiAttention &params) {
  Plan &plan = plans[static_cast<size_t>(kind)][params];
  if (plan.graph)
    return plan;
  auto graph = planAttention(dnn, kind, params, {handle});
  if (kind == AttentionKind::Gradient)
    plan.ownBytes = aligned(static_cast<size_t>(params.batch * params.heads * params.queries) * sizeof(float));
  size_t bytes = plan.ownBytes + graph->workspaceBytes;
  if (bytes > 0 && bytes + workspaceAlignment - DIVISI_ALIGNMENT > static_cast<size_t>(params.workspace))
    plan.workspace.emplace(driver, bytes, "allocate the workspace of attention");
  plan.graph = std::move(graph); // last: if there was no memory, there is no plan
  return plan;
}

void Attention::compute(AttentionKind kind, const DivisiAttention &params, void *const *buffers) {
  Plan &plan = this->plan(kind, params);
  size_t tensors = (kind == AttentionKind::Forward ? 5 : 9) + (params.has_bias ? 1 : 0);
  char *workspace = nullptr;
  if (plan.workspace)
    workspace = plan.workspace->data();
  else if (params.workspace > 0)
    workspace = reinterpret_cast<char *>(aligned(addressOf(buffers[tensors])));
  std::vector<void *> memory(buffers, buffers + tensors);
  if (plan.ownBytes > 0)
    memory.push_back(workspace);
  plan.graph->execute(handle, memory, workspace + plan.ownBytes);
}
