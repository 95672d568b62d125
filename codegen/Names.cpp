#include "codegen/Names.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

void divisi::codegen::addNames(Location loc, SmallVectorImpl<StringRef> &names) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    if (!llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName().getValue());
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      addNames(part, names);
  }
}
