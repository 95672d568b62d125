// divisi checkpoint: lists, checks and exports the contents of checkpoints.
#include "divisi/Commands.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/CheckpointReader.h"

#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace divisi;
using runtime::Result;
using runtime::Status;

namespace {
struct ExportFlags {
  std::string folder, output;
  bool all = false, ema = false;
};

/// Exports the newest valid checkpoint, or the one that the folder is; returns its name.
Result<std::string> exportNewest(const ExportFlags &flags) {
  if (runtime::isOfCheckpoint(flags.output, flags.folder))
    return Status::usage("-o " + flags.output + ": this is a file of the checkpoint, which would be lost: name another file");
  std::error_code error;
  if (std::filesystem::exists(flags.folder + "/manifest.json", error)) {
    Status status = runtime::exportCheckpoint(flags.folder, flags.output, flags.all, flags.ema);
    return status.ok() ? Result<std::string>(flags.folder) : status;
  }
  if (!std::filesystem::is_directory(flags.folder, error))
    return runtime::failure("there is no folder '", flags.folder, "'");
  Result<runtime::CheckpointFolder> folder = runtime::CheckpointFolder::open(flags.folder);
  if (!folder.ok())
    return folder.status();
  Result<std::vector<std::string>> names = folder->list();
  if (!names.ok())
    return names.status();
  Status last = runtime::failure("there is no checkpoint in '", flags.folder, "'");
  for (const std::string &name : *names) {
    last = runtime::exportCheckpoint(flags.folder + "/" + name, flags.output, flags.all, flags.ema);
    if (last.ok())
      return name;
    if (last.isRefused() || last.kind() == Status::Kind::Usage) // not a fault of this checkpoint
      return last;
    if (&name != &names->back())
      llvm::errs() << "warning: passing over " << name << ": " << last.message() << "\n";
  }
  return last;
}
} // namespace

void tools::addCheckpoint(CLI::App &app, int &exitCode) {
  CLI::App *command = app.add_subcommand("checkpoint", "what checkpoints of programs hold");
  command->require_subcommand(1);
  CLI::App *exported = command->add_subcommand("export", "write the tensors of a checkpoint to one safetensors file");
  auto flags = std::make_shared<ExportFlags>();
  exported->add_option("folder", flags->folder, "a program's --checkpoint folder (its newest), or one of those in it")
      ->required();
  exported->add_option("-o", flags->output, "the file to write")->type_name("FILE.safetensors")->required();
  exported->add_flag("--all", flags->all, "the optimizer's state, too, not the model's tensors alone");
  exported->add_flag("--ema", flags->ema, "the moving averages of the weights (--ema of divisi compile) in their place");
  for (CLI::App *shown : {command, exported})
    shown->footer("Example:\n  divisi checkpoint export ckpt -o weights.safetensors");
  exported->callback([flags, &exitCode] {
    Result<std::string> written = exportNewest(*flags);
    if (written.ok()) {
      llvm::outs() << "wrote " << *written << " to " << flags->output << "\n";
      return;
    }
    llvm::errs() << "error: " << written.status().message() << "\n";
    exitCode = written.status().exitCode();
  });
}
