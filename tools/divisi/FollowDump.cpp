#include "divisi/FollowDump.h"

#include "compiler/Session.h"
#include "dialects/Dist/Dist.h"
#include "passes/Planning/ParseDump.h"

using namespace mlir;
using namespace divisi;

LogicalResult tools::followDump(const ModelFlags &model, DeviceFlags &devices) {
  if (!model.isDump())
    return success();
  if (auto text = llvm::expectedToOptional(readDump(model.input)); !text || !(*text)->getBuffer().contains(dist::names::sync))
    return success(); // what cannot be read is an error later
  compiler::Session session;
  if (failed(session.read(model)))
    return failure();
  ModuleOp module = *session.model.module;
  auto sync = dist::Sync::of(module);
  if (failed(sync) || compiler::levelOf(module) >= compiler::Level::planned || sync->mode == dist::Sync::Mode::allReduce)
    return success(succeeded(sync));
  auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::names::syncMesh);
  devices.follow(*sync, mesh ? dist::toMesh(mesh) : dist::Mesh());
  return success();
}
