#include "step/Block.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::step;
using graph::Form;

bool Block::Op::isPointwise() const { return (form == Form::elementwise || form == Form::view) && results.size() == 1; }

bool Block::Op::isLoop() const { return form == Form::elementwise || form == Form::view || form == Form::reduction; }

int64_t Block::Op::points() const { return llvm::product_of(extents); }

int Block::addValue(int64_t elements, int64_t bytes) {
  values.push_back({elements, bytes});
  readers.emplace_back();
  outputs.push_back(0);
  return values.size() - 1;
}

int Block::addOp(Op op) {
  int number = ops.size();
  for (int result : op.results)
    values[result].op = number;
  for (int operand : op.operands)
    readers[operand].push_back(number);
  if (op.origin < 0)
    op.origin = number;
  ops.push_back(std::move(op));
  links.emplace_back();
  link(number, -1);
  return number;
}

void Block::addOutput(int value, int64_t when) {
  ++outputs[value];
  outputList.push_back({value, when});
}

void Block::link(int op, int before) {
  int previous = before >= 0 ? links[before].previous : last;
  double low = previous >= 0 ? links[previous].place : 0;
  links[op] = {previous, before, before >= 0 ? (low + links[before].place) / 2 : low + 1};
  (previous >= 0 ? links[previous].next : first) = op;
  (before >= 0 ? links[before].previous : last) = op;
  if (before < 0 || (low < links[op].place && links[op].place < links[before].place))
    return;
  double place = 1; // too close: all get new places
  for (int other = first; other >= 0; other = links[other].next)
    links[other].place = place++;
}

void Block::unlink(int op) {
  auto [previous, next, place] = links[op];
  (previous >= 0 ? links[previous].next : first) = next;
  (next >= 0 ? links[next].previous : last) = previous;
  links[op] = {};
}

int Block::cloneBefore(int op, int before) {
  Op copy = ops[op];
  for (int &result : copy.results) {
    const Value old = values[result];
    result = addValue(old.elements, old.bytes);
  }
  int number = addOp(std::move(copy));
  moveBefore(number, before);
  return number;
}

void Block::moveBefore(int op, int before) {
  unlink(op);
  link(op, before);
}

void Block::setOperand(int op, unsigned operand, int value) {
  int &held = ops[op].operands[operand];
  readers[held].erase(llvm::find(readers[held], op));
  held = value;
  readers[held].push_back(op);
}

void Block::erase(int op) {
  for (int operand : ops[op].operands)
    readers[operand].erase(llvm::find(readers[operand], op));
  ops[op].operands.clear();
  unlink(op);
}

std::vector<int> Block::order() const {
  std::vector<int> list;
  for (int op = first; op >= 0; op = links[op].next)
    list.push_back(op);
  return list;
}

std::vector<int64_t> Block::whenNeeded() const {
  std::vector<int64_t> when(ops.size());
  std::vector<bool> always(ops.size());
  auto need = [&](int value, int64_t bits) {
    int op = values[value].op;
    if (op < 0)
      return;
    when[op] |= bits;
    if (!bits)
      always[op] = true;
  };
  for (auto [value, bits] : outputList)
    need(value, bits);
  std::vector<int> list = order();
  for (int op : llvm::reverse(list)) {
    if (always[op] || ops[op].always)
      when[op] = 0;
    for (int operand : ops[op].operands)
      need(operand, when[op]);
  }
  return when;
}
