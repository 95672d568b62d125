#include "compiler/Import/ExportNotes.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace divisi::compiler;
using llvm::StringRef;

/// The strings of a Python list: "['a', 'b']".
static std::vector<std::string> listIn(StringRef text) {
  std::vector<std::string> list;
  while (true) {
    text = text.drop_until([](char c) { return c == '\'' || c == '"'; });
    if (text.empty())
      return list;
    char quote = text.front();
    auto [item, rest] = text.drop_front().split(quote);
    list.push_back(item.str());
    text = rest;
  }
}

static std::string lookUp(const Metadata &metadata, const char *key) {
  auto it = metadata.find(key);
  return it == metadata.end() ? "" : it->second;
}

CallNotes::CallNotes(const onnx::NodeProto &node) {
  Metadata metadata = metadataOf(node);
  rule = lookUp(metadata, "pkg.onnxscript.rewriter.rule_name");
  auto scopes = listIn(lookUp(metadata, "pkg.torch.onnx.name_scopes"));
  auto classes = listIn(lookUp(metadata, "pkg.torch.onnx.class_hierarchy"));
  if (scopes.size() > 1)
    module = scopes[scopes.size() - 2]; // the last scope is the call itself
  if (classes.size() > 1)
    moduleClass = classes[classes.size() - 2];
  // %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, ...), kwargs = {})
  std::string text = lookUp(metadata, "pkg.torch.onnx.fx_node");
  StringRef call = text;
  if (!call.consume_front("%"))
    return;
  result = call.take_until([](char c) { return c == ' '; }).str();
  StringRef callee = call.split("[target=").second;
  target = callee.take_until([](char c) { return c == ']'; }).str();
  target = StringRef(target).starts_with("torch.ops.") ? target.substr(10) : target;
  StringRef list = callee.split("(args = (").second;
  arguments = list.str();
  llvm::SmallVector<StringRef> words;
  list.split(words, '%');
  for (StringRef word : llvm::ArrayRef(words).drop_front(words.empty() ? 0 : 1))
    mentions.push_back(word.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).str());
}

std::string CallNotes::argument(size_t place, StringRef name) const {
  auto [positional, named] = StringRef(arguments).split(')');
  llvm::SmallVector<StringRef> list;
  int depth = 0; // of lists, which are one argument
  for (size_t i = 0, begin = 0; i <= positional.size(); ++i)
    if (i == positional.size() || (depth == 0 && positional[i] == ',')) {
      list.push_back(positional.slice(begin, i).trim());
      begin = i + 1;
    } else {
      depth += (positional[i] == '[') - (positional[i] == ']');
    }
  StringRef text = list.size() > place ? list[place] : named.split((name + ": ").str()).second;
  return text.take_while([](char c) { return llvm::isAlnum(c) || c == '.' || c == '-' || c == '_'; }).str();
}

bool divisi::compiler::isFoldedBatchNorm(const onnx::NodeProto &node) {
  static const llvm::Regex made("^onnx::Conv_[0-9]+$");
  return StringRef(CallNotes(node).rule).contains("BatchNorm") ||
         (node.op_type() == "Conv" && node.input_size() > 2 && made.match(node.input(1)) && made.match(node.input(2)));
}

std::string divisi::compiler::describe(const onnx::NodeProto &node, const std::string &name) {
  std::string module = CallNotes(node).module;
  return module.empty() ? name : name + " in " + module;
}

void ExportNotes::add(const std::string &placeholder, StringRef kind, const std::string &target) {
  if (kind == "PARAMETER") {
    kinds[target] = Kind::parameter;
    placeholders[placeholder] = target;
  } else if (kind == "BUFFER") {
    kinds[target] = Kind::buffer;
  } else if (kind == "CONSTANT_TENSOR") {
    kinds[target] = Kind::constant;
  } else if (kind == "BUFFER_MUTATION") {
    mutated.insert(target);
  }
}

ExportNotes::ExportNotes(const onnx::GraphProto &graph) {
  // Each line is one input: p_fc_weight: PARAMETER target='fc.weight'
  std::string signature = lookUp(metadataOf(graph), "pkg.torch.export.ExportedProgram.graph_signature");
  llvm::SmallVector<StringRef> lines;
  StringRef(signature).split(lines, '\n');
  for (StringRef line : lines) {
    auto [placeholder, rest] = line.split(": ");
    auto [kind, target] = rest.split(" target='");
    if (!target.empty())
      add(placeholder.str(), kind, target.take_until([](char c) { return c == '\''; }).str());
  }
  static const std::string spec = "pkg.torch.export.graph_signature.InputSpec.";
  for (const auto &value : graph.value_info()) {
    Metadata metadata = metadataOf(value);
    if (std::string kind = lookUp(metadata, (spec + "kind").c_str()); !kind.empty()) {
      add(lookUp(metadata, "pkg.torch.onnx.original_node_name"), kind, value.name());
      originals.insert(value.name());
      if (lookUp(metadata, (spec + "persistent").c_str()) == "False")
        transient.insert(value.name());
    }
    if (std::string from = lookUp(metadata, "pkg.onnxscript.optimizer.folded_from"); !from.empty())
      sources[value.name()] = listIn(from);
  }
}

std::optional<ExportNotes::Kind> ExportNotes::kindOf(const std::string &name) const {
  auto it = kinds.find(name);
  return it == kinds.end() ? std::nullopt : std::optional(it->second);
}

const std::vector<std::string> *ExportNotes::sourcesOf(const std::string &name) const {
  auto it = sources.find(name);
  return it == sources.end() ? nullptr : &it->second;
}
