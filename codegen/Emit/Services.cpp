#include "codegen/Emit/Services.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

FailureOr<LibraryCall> codegen::serviceOf(exec::CallOp call) {
  auto library = dyn_cast<LibraryInterface>(call.getPayload());
  if (!library)
    return call.emitOpError("the runtime has no service for '") << call.getPayload()->getName() << "'";
  FailureOr<LibraryCall> service = library.getLibraryCall();
  if (failed(service))
    return failure();
  if (call.communicates()) {
    if (!call.getId())
      return call.emitOpError("needs an id");
    service->params[0] = *call.getId();
  }
  if (Value workspace = call.getWorkspace()) {
    if (service->workspace == 0)
      return call.emitOpError("has a workspace, but its service takes none");
    service->params.back() = graph::bytesOf(workspace.getType());
  }
  return service;
}

LogicalResult codegen::checkServices(ModuleOp module) {
  bool ok = true;
  module.walk([&](exec::CallOp call) { ok &= succeeded(serviceOf(call)); });
  return success(ok);
}
