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
  place.push_back(place.empty() ? 1 : place.back() + 1);
  ops.push_back(std::move(op));
  return number;
}

void Block::addOutput(int value, int64_t when) {
  ++outputs[value];
  outputList.push_back({value, when});
}

double Block::placeBefore(int op) {
  double before = 0;
  for (double other : place)
    if (other < place[op])
      before = std::max(before, other);
  double middle = (before + place[op]) / 2;
  if (before < middle && middle < place[op])
    return middle;
  double next = 1; // too close: all get new places
  for (int number : order())
    place[number] = next++;
  return place[op] - 0.5;
}

int Block::cloneBefore(int op, int before) {
  double where = placeBefore(before);
  Op copy = ops[op];
  for (int &result : copy.results) {
    const Value old = values[result];
    result = addValue(old.elements, old.bytes);
  }
  int number = addOp(std::move(copy));
  place[number] = where;
  return number;
}

void Block::moveBefore(int op, int before) {
  double where = placeBefore(before);
  place[op] = where;
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
  place[op] = -1;
}

std::vector<int> Block::order() const {
  std::vector<int> list;
  for (size_t op = 0; op < ops.size(); ++op)
    if (place[op] >= 0)
      list.push_back(op);
  std::stable_sort(list.begin(), list.end(), [&](int a, int b) { return isBefore(a, b); });
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
