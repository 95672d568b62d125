#include "runtime/devices/cuda/Dnn.h"
#include "runtime/core/Status.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
/// Engines that need more workspace are not used.
constexpr size_t mostWorkspace = size_t(1) << 30;

Element elementOf(int64_t type) {
  return type == DIVISI_F64    ? Element::F64
         : type == DIVISI_F16  ? Element::F16
         : type == DIVISI_BF16 ? Element::BF16
                               : Element::F32;
}

/// An entry for each spatial dimension, of which cuDNN wants two at least.
std::vector<int64_t> spatial(const DivisiConv &c, const int64_t (&values)[3], int64_t otherwise) {
  std::vector<int64_t> result(values, values + c.spatial);
  if (c.spatial == 1)
    result.push_back(otherwise);
  return result;
}

/// A tensor [outer, channels, sizes..] in the order of its memory.
void *describe(OperationGraph &graph, const DivisiConv &c, int64_t outer, int64_t channels, const int64_t (&sizes)[3],
               bool channelsLast) {
  std::vector<int64_t> dims = {outer, channels}, inner = spatial(c, sizes, 1);
  dims.insert(dims.end(), inner.begin(), inner.end());
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t stride = channelsLast ? channels : 1;
  for (size_t d = dims.size(); d-- > 0;)
    if (d != 1 || !channelsLast) {
      strides[d] = stride;
      stride *= dims[d];
    }
  return graph.image(elementOf(c.type), dims, strides);
}

/// Whether a filter in memory is one with its channels last, too.
bool hasOneOrder(const DivisiConv &c) {
  return c.in_channels == c.groups || std::all_of(c.kernel, c.kernel + c.spatial, [](int64_t size) { return size == 1; });
}
} // namespace

std::unique_ptr<GraphPlan> cuda::planConvolution(const GraphFunctions &dnn, ConvKind kind, const DivisiConv &c,
                                                 const PlanTarget &target) {
  OperationGraph graph(dnn);
  void *x = describe(graph, c, c.batch, c.in_channels, c.in, c.channels_last);
  void *w = describe(graph, c, c.out_channels, c.in_channels / c.groups, c.kernel, c.channels_last && hasOneOrder(c));
  void *y = describe(graph, c, c.batch, c.out_channels, c.out, c.channels_last);
  graph.convolution({kind, elementOf(c.type), spatial(c, c.pad_low, 0), spatial(c, c.pad_high, 0),
                     spatial(c, c.stride, 1), spatial(c, c.dilation, 1)},
                    x, w, y);
  return graph.plan(target, "plan a convolution",
                    {.exact = c.type == DIVISI_F32 && !c.tf32, .ordered = true, .mostWorkspace = mostWorkspace});
}

Dnn::Dnn(const Driver &driver, Stream stream) : driver(driver), dnn(GraphFunctions::convolutions, &handle) {
  dnn.check(dnn.setStream(handle, stream), "use the stream");
}

Dnn::~Dnn() {
  for (auto &ofKind : plans)
    ofKind.clear();
  dnn.destroy(handle);
}

bool Dnn::supports(const DivisiConv &conv) {
  auto isNegative = [](int64_t pad) { return pad < 0; };
  if (std::any_of(conv.pad_low, conv.pad_low + conv.spatial, isNegative) ||
      std::any_of(conv.pad_high, conv.pad_high + conv.spatial, isNegative))
    return false;
  // Engines count elements with ints.
  double x = double(conv.in_channels), y = double(conv.out_channels);
  for (int64_t d = 0; d < conv.spatial; ++d) {
    x *= double(conv.in[d]);
    y *= double(conv.out[d]);
  }
  return std::max({x, y, double(conv.batch)}) <= INT_MAX;
}

void Dnn::conv(ConvKind kind, const DivisiConv &params, void *const *buffers) {
  Plan &plan = plans[static_cast<size_t>(kind)][params];
  if (!plan.graph) {
    auto graph = planConvolution(dnn, kind, params, {handle});
    if (graph->workspaceBytes > static_cast<size_t>(params.workspace))
      plan.workspace.emplace(driver, graph->workspaceBytes, "allocate the workspace of a convolution");
    plan.graph = std::move(graph); // last: if there was no memory, there is no plan
  }
  void *workspace = plan.workspace ? plan.workspace->data() : params.workspace > 0 ? buffers[3] : nullptr;
  std::vector<void *> memory(buffers, buffers + 3); // x, w, y
  if (kind == ConvKind::InputGrad)
    std::swap(memory[0], memory[2]); // of dy, w, dx
  else if (kind == ConvKind::FilterGrad)
    std::swap(memory[1], memory[2]); // of x, dy, dw
  plan.graph->execute(handle, memory, workspace);
}
