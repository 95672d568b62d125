// divisi diff: what another plan of a model changes, where, and what it costs.
#include "compiler/Report/Difference.h"
#include "divisi/Attempt.h"
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/Diagnostics.h"
#include "divisi/DeviceFlags.h"
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Passes.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning;

namespace {

struct DiffFlags {
  ModelFlags model;
  std::string first, second, cluster;
  bool noCalibration = false;
};

class Comparison {
public:
  explicit Comparison(DiffFlags &flags) : flags(flags) {}

  int run() {
    flags.model.import.weightsOptional = true;
    auto machine = machineFor(flags.cluster, !flags.noCalibration);
    if (!machine)
      return fail(machine.takeError());
    auto cluster = parseCluster(flags.cluster, *machine);
    if (!cluster)
      return fail("--cluster: " + llvm::toString(cluster.takeError()), 2);
    Attempt first(flags.model), second(flags.model);
    for (auto [attempt, plan] : {std::pair(&first, &flags.first), std::pair(&second, &flags.second)})
      if (int code = price(*attempt, *cluster, *plan))
        return code;
    compiler::printDifference({llvm::sys::path::filename(flags.model.input).str(), *cluster, first.candidates[0],
                               second.candidates[0]},
                              llvm::outs());
    return 0;
  }

private:
  /// Prices a plan: a file, or a mesh with "zero=N" perhaps. Returns an exit code.
  int price(Attempt &attempt, const Cluster &cluster, const std::string &plan) {
    if (llvm::sys::fs::is_regular_file(plan)) {
      if (llvm::Error error = attempt.price(cluster, plan))
        return fail(std::move(error));
      return attempt.candidates.empty() ? fail(plan + " is the plan of a pipeline: diff compares plans without stages", 1)
                                        : 0;
    }
    auto [axes, zero] = llvm::StringRef(plan).split(" zero=");
    int level = 0;
    if (!axes.contains('=') || (!zero.empty() && (zero.getAsInteger(10, level) || level < 1 || level > 3)))
      return fail("expected a plan file, or a mesh such as data=4,model=2 or 'data=8 zero=1', got '" + plan + "'", 2);
    auto mesh = parseMesh(axes);
    if (!mesh)
      return fail(llvm::toString(mesh.takeError()), 2);
    if (mesh->find(dist::stageAxis))
      return fail("'" + plan + "' is a pipeline: diff compares plans without stages", 2);
    if (mesh->devices() > cluster.devices())
      return fail("the mesh " + axes.str() + " has " + std::to_string(mesh->devices()) + " devices, --cluster " +
                      flags.cluster + " has " + std::to_string(cluster.devices()),
                  2);
    if (llvm::Error error = attempt.price(cluster, *mesh, level))
      return fail(std::move(error));
    return 0;
  }

  DiffFlags &flags;
};
} // namespace

void tools::addDiff(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App *command = app.add_subcommand("diff", "compare two plans: what changes, in which layers, and what it costs");
  command->add_option("first", flags->first, "a plan file, or a mesh: data=8, 'data=8 zero=1'")->required();
  command->add_option("second", flags->second, "the plan that it is compared with")->required();
  flags->model.addTo(*command);
  auto *where = command->add_option_group("Devices");
  where
      ->add_option("--cluster", flags->cluster, "cpu:4, h100, 8xh100, 2x8xh100, or a .toml file")
      ->required();
  addNoCalibration(*where, flags->noCalibration);
  command->footer("Examples:\n"
                  "  divisi diff data=8 data=4,model=2 model.onnx --cluster 8xh100 --dim batch=64\n"
                  "  divisi diff before.plan after.plan model.onnx --cluster 8xh100 --dim batch=64\n"
                  "External data may be missing.");
  command->callback([flags, &exitCode] {
    std::string wrong = flags->model.finish();
    if (wrong.empty() && flags->cluster.empty())
      wrong = "--cluster is empty";
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    exitCode = Comparison(*flags).run();
  });
}
