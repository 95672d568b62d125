// divisi diff: what another plan of a model changes, where, and what it costs.
#include "compiler/Attempt.h"
#include "compiler/MeshPlan.h"
#include "compiler/Report/Difference.h"
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/DeviceFlags.h"
#include "divisi/Fail.h"
#include "divisi/ModelFlags.h"
#include "divisi/Output.h"
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Passes.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::tools;
using namespace divisi::planning;

namespace {

struct DiffFlags {
  ModelFlags model;
  std::string first, second, cluster, other, html;
  bool noCalibration = false;
};

class Comparison {
public:
  explicit Comparison(DiffFlags &flags) : flags(flags) {}

  int run() {
    flags.model.import.weightsOptional = true;
    ModelFlags other = flags.model;
    if (!flags.other.empty())
      other.input = flags.other;
    if (flags.model.isDump() != other.isDump()) { // the flags are for the side that is none
      ModelFlags &dump = other.isDump() ? other : flags.model;
      dump.importFlags.clear(), dump.trainFlags.clear();
    }
    Side first(flags.model), second(other);
    if (int code = price(first, flags.first))
      return code;
    // What is noted about the model was said already.
    ScopedDiagnosticHandler again(&second.attempt.session.context, [&](Diagnostic &diagnostic) {
      return success(other.input == flags.model.input && diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    if (int code = price(second, flags.second))
      return code;
    auto shown = [](const Side &side) {
      const compiler::Attempt &attempt = side.attempt;
      const compiler::PipelineCandidate *pipeline = attempt.pipelines.empty() ? nullptr : &attempt.pipelines[0];
      return compiler::DifferenceSide{llvm::sys::path::filename(attempt.request.input).str(), *side.cluster,
                                      pipeline ? pipeline->plan : attempt.candidates[0], pipeline};
    };
    auto difference = compiler::Difference::between(shown(first), shown(second));
    if (flags.html.empty()) {
      difference.print(llvm::outs());
      return 0;
    }
    std::string wrong = writeOutput(flags.html, [&](llvm::raw_ostream &out) { difference.printPage(out); });
    return wrong.empty() ? 0 : fail(wrong, 1);
  }

private:
  struct Side {
    explicit Side(const ModelFlags &model) : attempt(model) {}
    compiler::Attempt attempt;
    std::optional<Cluster> cluster;
  };

  /// Prices PLAN or PLAN@CLUSTER: a file; a mesh, with what may follow it; or "auto". Returns an exit code.
  int price(Side &side, const std::string &text) {
    std::string plan = text, where = flags.cluster;
    if (size_t at = text.rfind('@'); at != std::string::npos && !llvm::sys::fs::is_regular_file(text))
      plan = text.substr(0, at), where = text.substr(at + 1);
    if (where.empty())
      return fail("'" + text + "': on which cluster? add --cluster, or " + plan + "@8xh100", 2);
    auto machine = machineFor(where, !flags.noCalibration);
    if (!machine)
      return fail(machine.takeError());
    auto cluster = parseCluster(where, *machine);
    if (!cluster)
      return fail("--cluster: " + llvm::toString(cluster.takeError()), 2);
    side.cluster = *cluster;
    compiler::Attempt &attempt = side.attempt;
    if (llvm::sys::fs::is_regular_file(plan)) {
      if (llvm::Error error = attempt.price(*cluster, plan))
        return fail(std::move(error));
      return 0;
    }
    if (plan == "auto") {
      PlannerOptions options;
      if (cluster->devices() > 1) {
        options.meshes = enumerateMeshes(*cluster, cluster->devices());
        options.wider = true;
      }
      if (llvm::Error error = attempt.plan(*cluster, options))
        return fail(std::move(error));
      if (attempt.program)
        return fail("'" + attempt.request.input + "' is planned already");
      return 0;
    }
    auto parsed = compiler::parseMeshPlan(plan);
    if (!parsed)
      return fail(llvm::toString(parsed.takeError()), 2);
    if (int64_t devices = parsed->options.devices(parsed->mesh); devices > cluster->devices())
      return fail("the mesh " + plan.substr(0, plan.find(' ')) + " has " + std::to_string(devices) +
                      " devices, --cluster " + where + " has " + std::to_string(cluster->devices()),
                  2);
    if (llvm::Error error = attempt.price(*cluster, parsed->mesh, parsed->zero, parsed->options))
      return fail(std::move(error));
    return 0;
  }

  DiffFlags &flags;
};
} // namespace

void tools::addDiff(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App *command = app.add_subcommand("diff", "compare two plans: what changes, in which layers, and what it costs");
  command
      ->add_option(
          "first", flags->first,
          "PLAN or PLAN@CLUSTER: a plan file; a mesh, such as data=8, 'data=8 zero=1' or 'stage=2,data=4 schedule=1f1b "
          "microbatches=8'; or auto: the best without stages that a search finds")
      ->required();
  command->add_option("second", flags->second, "the plan that it is compared with")->required();
  flags->model.addTo(*command);
  auto *where = command->add_option_group("Devices");
  where->add_option("--cluster", flags->cluster, "where a side has none: cpu:4, h100, 8xh100, 2x8xh100, or a .toml file");
  command->add_option("--to", flags->other, "the second side's model, if it is another one (with the same flags)")
      ->type_name("MODEL");
  addNoCalibration(*where, flags->noCalibration);
  command->add_option("--html", flags->html, "write a page instead of text")->type_name("FILE");
  command->footer("Examples:\n"
                  "  divisi diff data=8 data=4,model=2 model.onnx --cluster 8xh100 --dim batch=64\n"
                  "  divisi diff before.plan after.plan model.onnx --cluster 8xh100 --dim batch=64\n"
                  "  divisi diff data=8 'stage=2,data=4 microbatches=16' model.onnx --cluster 8xh100 --dim batch=64\n"
                  "  divisi diff auto@8xh100 auto@8xb200 model.onnx --dim batch=64\n"
                  "  divisi diff auto auto narrow.onnx --to wide.onnx --cluster 8xh100 --dim batch=64\n"
                  "External data may be missing.");
  command->callback([flags, command, &exitCode] {
    std::string wrong = flags->model.finish();
    if (wrong.empty() && command->get_option("--cluster")->count() && flags->cluster.empty())
      wrong = "--cluster is empty";
    if (wrong.empty() && command->get_option("--html")->count())
      wrong = flags->html.empty() ? "--html is empty" : checkOutput(*command, "--html", flags->html);
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    exitCode = Comparison(*flags).run();
  });
}
