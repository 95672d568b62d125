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
