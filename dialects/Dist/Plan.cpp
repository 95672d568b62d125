#include "dialects/Dist/Plan.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;

ParseResult dist::parsePlanFormat(OpAsmParser &parser, IntegerAttr &format) {
  auto loc = parser.getCurrentLocation();
  int64_t number = 1;
  if (std::string hash; failed(parser.parseOptionalString(&hash))) { // format 1 began with it
    if (parser.parseKeyword("format"))
      return failure();
    loc = parser.getCurrentLocation();
    if (parser.parseInteger(number))
      return failure();
  }
  if (number != planFormat)
    return parser.emitError(loc) << " is a plan of format " << number << ", this divisi reads format " << planFormat
                                 << ": make the plan again with --emit plan";
  format = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

void dist::printPlanFormat(OpAsmPrinter &printer, PlanOp, IntegerAttr format) {
  printer << "format " << format.getInt();
}

ParseResult dist::parsePlacement(OpAsmParser &parser, ArrayAttr &dims) {
  SmallVector<Attribute> list;
  auto one = [&]() -> ParseResult {
    SmallVector<Attribute> axes;
    StringRef word;
    std::string name;
    do {
      if (succeeded(parser.parseOptionalKeyword(&word))) {
        if (word == "_" && axes.empty())
          break;
        name = word.str();
      } else if (failed(parser.parseOptionalString(&name))) {
        return parser.emitError(parser.getCurrentLocation(), "expected '_' or an axis, as in [data+model, _]");
      }
      axes.push_back(parser.getBuilder().getStringAttr(name));
    } while (succeeded(parser.parseOptionalPlus()));
    list.push_back(parser.getBuilder().getArrayAttr(axes));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, one))
    return failure();
  dims = parser.getBuilder().getArrayAttr(list);
  return success();
}

void dist::printPlacement(OpAsmPrinter &printer, PlaceOp, ArrayAttr dims) {
  printer << '[';
  llvm::interleaveComma(dims.getAsRange<ArrayAttr>(), printer, [&](ArrayAttr axes) {
    if (axes.empty())
      printer << '_';
    llvm::interleave(
        axes.getAsRange<StringAttr>(), printer,
        [&](StringAttr axis) {
          if (axis == "_")
            printer << axis;
          else
            printer.printKeywordOrString(axis);
        },
        "+");
  });
  printer << ']';
}
