#include "runtime/devices/cpu/ConvPlan.h"
#include "runtime/core/Scratch.h"
#include "runtime/devices/cpu/MatmulPlan.h"

#include <algorithm>
#include <string_view>

using namespace divisi::runtime;
using dnnl::memory;

namespace {
/// Sizes and layouts of one convolution in oneDNN's terms.
struct Description {
  std::array<memory::dims, 3> dims;
  std::array<memory::format_tag, 3> tags;
  memory::dims stride, dilation, low, high;
  memory::data_type type;

  explicit Description(const DivisiConv &c) {
    using Tag = memory::format_tag;
    auto s = static_cast<size_t>(c.spatial);
    constexpr std::array plain = {Tag::ncw, Tag::nchw, Tag::ncdhw}, last = {Tag::nwc, Tag::nhwc, Tag::ndhwc},
                         filter = {Tag::oiw, Tag::oihw, Tag::oidhw}, grouped = {Tag::goiw, Tag::goihw, Tag::goidhw};
    type = c.type == DIVISI_F32 ? memory::data_type::f32 : memory::data_type::bf16;
    tags[ConvX] = tags[ConvY] = (c.channels_last ? last : plain)[s - 1];
    tags[ConvW] = (c.groups > 1 ? grouped : filter)[s - 1];
    dims[ConvX] = {c.batch, c.in_channels};
    dims[ConvY] = {c.batch, c.out_channels};
    if (c.groups > 1)
      dims[ConvW] = {c.groups, c.out_channels / c.groups, c.in_channels / c.groups};
    else
      dims[ConvW] = {c.out_channels, c.in_channels};
    for (size_t d = 0; d < s; ++d) {
      dims[ConvX].push_back(c.in[d]);
      dims[ConvY].push_back(c.out[d]);
      dims[ConvW].push_back(c.kernel[d]);
      stride.push_back(c.stride[d]);
      dilation.push_back(c.dilation[d] - 1);
      low.push_back(c.pad_low[d]);
      high.push_back(c.pad_high[d]);
    }
  }
  int64_t channelsOfGroup() const { return dims[ConvW][dims[ConvW].size() - stride.size() - 1]; }
  memory::desc user(ConvSlot slot) const { return {dims[slot], type, tags[slot]}; }
  memory::desc any(ConvSlot slot) const { return {dims[slot], type, memory::format_tag::any}; }
};

/// A primitive with the layouts that it requires.
struct Choice {
  dnnl::primitive primitive;
  std::array<memory::desc, 3> layouts; // by ConvSlot
  memory::desc scratchpad;
  std::string kernel;
};

constexpr int64_t mostElementsOfVector = 16; // floats of AVX-512

bool isStrided1x1(const Description &d) {
  auto isOne = [](int64_t size) { return size == 1; };
  return std::all_of(d.dims[ConvW].end() - static_cast<ptrdiff_t>(d.stride.size()), d.dims[ConvW].end(), isOne) &&
         !std::all_of(d.stride.begin(), d.stride.end(), isOne);
}

/// `free`: the library also chooses the layouts of x and y.
Choice choose(ConvKind kind, const Description &d, bool free, const dnnl::engine &engine) {
  using namespace dnnl;
  memory::desc x = free ? d.any(ConvX) : d.user(ConvX), y = free ? d.any(ConvY) : d.user(ConvY), w = d.any(ConvW);
  constexpr auto algorithm = algorithm::convolution_direct;
  primitive_attr attr;
  attr.set_scratchpad_mode(scratchpad_mode::user);
  convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm, x, w, y, d.stride, d.dilation, d.low, d.high}, attr, engine);
  if (kind == ConvKind::Forward)
    return {convolution_forward(forward),
            {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
            forward.scratchpad_desc(),
            forward.impl_info_str()};
  if (kind == ConvKind::InputGrad) {
    convolution_backward_data::primitive_desc data({algorithm, x, w, y, d.stride, d.dilation, d.low, d.high}, attr,
                                                   engine, forward);
    return {convolution_backward_data(data),
            {data.diff_src_desc(), data.weights_desc(), data.diff_dst_desc()},
            data.scratchpad_desc(),
            data.impl_info_str()};
  }
  const convolution_backward_weights::desc wanted(algorithm, x, w, y, d.stride, d.dilation, d.low, d.high);
  convolution_backward_weights::primitive_desc weights(wanted, attr, engine, forward); // reads `wanted` in next_impl()
  // Kernels for 1x1 filters with strides write beyond their scratchpad if channels-last inputs have fewer channels than
  // a vector has elements (oneDNN's issue 6035).
  while (!free && isStrided1x1(d) && d.channelsOfGroup() < mostElementsOfVector &&
         std::string_view(weights.impl_info_str()).starts_with("jit_1x1") && weights.next_impl())
    ;
  return {convolution_backward_weights(weights),
          {weights.src_desc(), weights.diff_weights_desc(), weights.diff_dst_desc()},
          weights.scratchpad_desc(),
          weights.impl_info_str()};
}

int argumentOf(ConvKind kind, ConvSlot slot) {
  if (slot == ConvX)
    return kind == ConvKind::InputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  if (slot == ConvW)
    return kind == ConvKind::FilterGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  return kind == ConvKind::Forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
}

bool tuned(const Choice &choice) { return choice.kernel.starts_with("jit") || choice.kernel.starts_with("brg"); }
} // namespace

std::array<ConvSlot, 3> divisi::runtime::convSlots(ConvKind kind) {
  if (kind == ConvKind::Forward)
    return {ConvX, ConvW, ConvY};
  return kind == ConvKind::InputGrad ? std::array{ConvY, ConvW, ConvX} : std::array{ConvX, ConvY, ConvW};
}

ConvPlan::ConvPlan() : stream(cpuEngine()) {}

bool ConvPlan::prepare(ConvKind kind, const DivisiConv &conv) {
  Description description(conv);
  // Kernels that read channels-last tensors directly save two reorders, and they are faster than kernels for the other
  // layout.
  Choice choice = choose(kind, description, !conv.channels_last, cpuEngine());
  if (conv.channels_last && !tuned(choice))
    choice = choose(kind, description, true, cpuEngine());
  if (conv.type != DIVISI_F32 && !tuned(choice))
    return false;
  name = choice.kernel;
  primitive = choice.primitive;
  auto slots = convSlots(kind);
  for (size_t i = 0; i < 3; ++i) {
    Operand &o = operands[i];
    const memory::desc &layout = choice.layouts[slots[i]];
    o.user = o.inner = memory(description.user(slots[i]), cpuEngine(), nullptr);
    o.reordered = layout != o.user.get_desc();
    if (o.reordered) {
      o.inner = memory(layout, cpuEngine(), nullptr);
      o.reorder = i < 2 ? dnnl::reorder(o.user, o.inner) : dnnl::reorder(o.inner, o.user);
      o.at = bytes;
      bytes += Scratch::roundUp(layout.get_size());
    }
    arguments[argumentOf(kind, slots[i])] = o.inner;
  }
  scratchpad = memory(choice.scratchpad, cpuEngine(), nullptr);
  arguments[DNNL_ARG_SCRATCHPAD] = scratchpad;
  scratchpadAt = bytes;
  bytes += Scratch::roundUp(choice.scratchpad.get_size());
  return true;
}

std::unique_ptr<ConvPlan> ConvPlan::create(ConvKind kind, const DivisiConv &conv) {
  try {
    std::unique_ptr<ConvPlan> plan(new ConvPlan);
    return plan->prepare(kind, conv) ? std::move(plan) : nullptr;
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

void ConvPlan::run(char *scratch, const std::array<void *, 3> &addresses) {
  for (size_t i = 0; i < 3; ++i) {
    operands[i].user.set_data_handle(addresses[i]);
    if (operands[i].reordered)
      operands[i].inner.set_data_handle(scratch + operands[i].at);
  }
  scratchpad.set_data_handle(scratch + scratchpadAt);
  for (size_t i = 0; i < 2; ++i)
    if (operands[i].reordered)
      operands[i].reorder.execute(stream, operands[i].user, operands[i].inner);
  primitive.execute(stream, arguments);
  if (operands[2].reordered)
    operands[2].reorder.execute(stream, operands[2].inner, operands[2].user);
  stream.wait();
}
