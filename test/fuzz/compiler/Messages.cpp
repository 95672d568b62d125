#include "test/fuzz/compiler/Messages.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <memory>
#include <random>

using namespace divisi;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

using Kind = FieldDescriptor::CppType;

const int64_t numbers[] = {0, -1, 1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 22, 33, 64, 255, INT32_MAX, INT32_MIN, int64_t(1) << 32,
                           int64_t(1) << 40, INT64_MAX, INT64_MIN, 10, 18, 20, 21, 23};
const double reals[] = {0, -0.0, 1, -1, 0.5, 1e-5, 1e30, 1e308, -1e308, 0.0 / 0.0, 1 / 0.0, 65536, 2};
const char *const texts[] = {"", "N", "label", "data", "../data", "data\n", "-1", "256", "18446744073709551616", "location", "offset",
                             "length", "NOTSET", "SAME_UPPER", "VALID", "mean", "sum", "none", "add", "tanh", "reflect", "edge", "wrap",
                             "linear", "cubic", "nearest", "ij,jk->ik", "...ij->...ji", "axis", "axes", "ai.onnx", "ai.onnx.ml",
                             "training", "reverse", "bidirectional", "constant", "align_corners", "DCR", "tf_crop_and_resize"};

/// All messages of a tree, and its texts.
struct Tree {
  std::vector<Message *> messages;
  std::vector<std::string> names;
};

void collect(Message *message, Tree &tree) {
  tree.messages.push_back(message);
  const auto *reflection = message->GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor *field : fields) {
    int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
    bool raw = field->type() == FieldDescriptor::TYPE_BYTES;
    for (int i = 0; i < count; ++i)
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        collect(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i) : reflection->MutableMessage(message, field),
                tree);
      else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !raw)
        tree.names.push_back(field->is_repeated() ? reflection->GetRepeatedString(*message, field, i)
                                                  : reflection->GetString(*message, field));
  }
}

class Damage {
public:
  Damage(onnx::ModelProto &model, unsigned seed, const std::vector<std::string> &operators)
      : model(model), random(seed), operators(operators) {
    random.discard(2);
    collect(&model, tree);
  }

  void apply() {
    Message *message = tree.messages[below(tree.messages.size())];
    const auto *descriptor = message->GetDescriptor();
    std::vector<const FieldDescriptor *> fields;
    message->GetReflection()->ListFields(*message, &fields);
    if (below(5) == 0 && descriptor->field_count() > 0)
      fields = {descriptor->field(below(descriptor->field_count()))}; // one that may be absent
    if (fields.empty() || below(8) == 0)
      return copyFrom(*message, tree.messages);
    const FieldDescriptor *field = fields[below(fields.size())];
    field->is_repeated() ? list(*message, field) : single(*message, field);
  }

  /// A copy of some message of a kind, null if there is none but `except`. (The message that is to be like it may contain it, or
  /// share its place.)
  std::unique_ptr<Message> another(const google::protobuf::Descriptor *kind, const std::vector<Message *> &others,
                                   const Message *except = nullptr) {
    std::vector<const Message *> same;
    for (const Message *other : others)
      if (other != except && other->GetDescriptor() == kind)
        same.push_back(other);
    if (same.empty())
      return nullptr;
    const Message *source = same[below(same.size())];
    std::unique_ptr<Message> copy(source->New());
    copy->CopyFrom(*source);
    return copy;
  }
  void copyFrom(Message &message, const std::vector<Message *> &others) {
    if (auto copy = another(message.GetDescriptor(), others, &message)) {
      if (below(4) > 0)
        message.Clear();
      message.MergeFrom(*copy);
    }
  }

  size_t below(size_t count) { return random() % count; }
  Tree tree;

private:
  int64_t integer() { return below(3) ? numbers[below(std::size(numbers))] : static_cast<int64_t>(below(32)); }
  std::string name(const FieldDescriptor *field) {
    if (field->name() == "op_type" && !operators.empty() && below(4) > 0)
      return operators[below(operators.size())];
    if (field->type() == FieldDescriptor::TYPE_BYTES)
      return std::string(numbers[below(16)] & 255, static_cast<char>(below(256)));
    return below(4) && !tree.names.empty() ? tree.names[below(tree.names.size())] : texts[below(std::size(texts))];
  }

  void single(Message &message, const FieldDescriptor *field) {
    const auto *reflection = message.GetReflection();
    if (below(8) == 0)
      return reflection->ClearField(&message, field);
    switch (field->cpp_type()) {
    case Kind::CPPTYPE_INT64:
      return reflection->SetInt64(&message, field, integer());
    case Kind::CPPTYPE_INT32:
      return reflection->SetInt32(&message, field, static_cast<int32_t>(integer()));
    case Kind::CPPTYPE_FLOAT:
      return reflection->SetFloat(&message, field, static_cast<float>(reals[below(std::size(reals))]));
    case Kind::CPPTYPE_ENUM:
      return reflection->SetEnumValue(&message, field, static_cast<int>(below(20)));
    case Kind::CPPTYPE_STRING:
      return reflection->SetString(&message, field, name(field));
    case Kind::CPPTYPE_MESSAGE:
      if (auto copy = another(field->message_type(), tree.messages))
        reflection->MutableMessage(&message, field)->CopyFrom(*copy);
      return;
    default:
      return;
    }
  }

  void list(Message &message, const FieldDescriptor *field) {
    const auto *reflection = message.GetReflection();
    int count = reflection->FieldSize(message, field);
    size_t action = below(6);
    if (count > 0 && action == 0)
      reflection->RemoveLast(&message, field);
    else if (count > 0 && action == 1) { // any one
      reflection->SwapElements(&message, field, static_cast<int>(below(count)), count - 1);
      reflection->RemoveLast(&message, field);
    } else if (count > 1 && action == 2)
      reflection->SwapElements(&message, field, static_cast<int>(below(count)), static_cast<int>(below(count)));
    else
      element(message, field, count > 0 && action < 5 ? static_cast<int>(below(count)) : -1);
  }

  /// Sets an element, or adds one.
  void element(Message &message, const FieldDescriptor *field, int at) {
    const auto *reflection = message.GetReflection();
    bool fresh = at < 0;
    switch (field->cpp_type()) {
    case Kind::CPPTYPE_INT64:
      return fresh ? reflection->AddInt64(&message, field, integer()) : reflection->SetRepeatedInt64(&message, field, at, integer());
    case Kind::CPPTYPE_INT32:
      return fresh ? reflection->AddInt32(&message, field, static_cast<int32_t>(integer()))
                   : reflection->SetRepeatedInt32(&message, field, at, static_cast<int32_t>(integer()));
    case Kind::CPPTYPE_UINT64:
      return fresh ? reflection->AddUInt64(&message, field, integer()) : reflection->SetRepeatedUInt64(&message, field, at, integer());
    case Kind::CPPTYPE_FLOAT:
      return fresh ? reflection->AddFloat(&message, field, 0.5F) : reflection->SetRepeatedFloat(&message, field, at, 1e30F);
    case Kind::CPPTYPE_DOUBLE:
      return fresh ? reflection->AddDouble(&message, field, 0.5) : reflection->SetRepeatedDouble(&message, field, at, 1e300);
    case Kind::CPPTYPE_STRING:
      return fresh ? reflection->AddString(&message, field, name(field))
                   : reflection->SetRepeatedString(&message, field, at, name(field));
    case Kind::CPPTYPE_MESSAGE:
      if (auto copy = another(field->message_type(), tree.messages))
        (fresh ? reflection->AddMessage(&message, field) : reflection->MutableRepeatedMessage(&message, field, at))->CopyFrom(*copy);
      return;
    default:
      return;
    }
  }

  onnx::ModelProto &model;
  std::minstd_rand random;
  const std::vector<std::string> &operators;
};

bool parse(onnx::ModelProto &model, std::string_view bytes) {
  google::protobuf::LogSilencer silence;
  return model.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) && model.has_graph();
}

/// Nothing if it is too large.
size_t give(const onnx::ModelProto &model, uint8_t *out, size_t most) {
  std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > most)
    return 0;
  std::memcpy(out, bytes.data(), bytes.size());
  return bytes.size();
}

} // namespace

size_t fuzz::mutateModel(uint8_t *data, size_t size, size_t most, unsigned seed, const std::vector<std::string> &operators) {
  onnx::ModelProto model;
  if (seed % 16 == 0 || !parse(model, text(data, size)))
    return LLVMFuzzerMutate(data, size, most);
  for (unsigned changes = seed / 16 % 3 + 1; changes > 0; --changes)
    Damage(model, seed / 64 + changes, operators).apply(); // (each looks at what the one before has left)
  size_t written = give(model, data, most);
  return written ? written : LLVMFuzzerMutate(data, size, most);
}

size_t fuzz::crossModels(std::string_view first, std::string_view second, uint8_t *out, size_t most, unsigned seed) {
  onnx::ModelProto model, other;
  if (!parse(model, first) || !parse(other, second))
    return 0;
  static const std::vector<std::string> none;
  Damage damage(model, seed, none);
  Tree others;
  collect(&other, others);
  damage.copyFrom(*damage.tree.messages[damage.below(damage.tree.messages.size())], others.messages);
  return give(model, out, most);
}
