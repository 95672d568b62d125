#include "runtime/core/ManifestParser.h"

using namespace divisi::runtime;

Status ManifestParser::parse(const Json &json) {
  JsonReader top(json, "the program's manifest");
  if (top.integer("abi") != DIVISI_ABI_VERSION)
    top.fail(concat("is not of version ", DIVISI_ABI_VERSION));
  manifest.model = top.text("model", "model");
  manifest.batch = top.integer("batch");
  if (manifest.batch < 1)
    top.fail("has a batch of less than one row");
  JsonReader weights(top.object("weights"), "the manifest's weights");
  manifest.weightsFile = weights.text("file", "");
  manifest.weightsHashes = weights.text("hashes", "");
  JsonReader training(top.object("training_info"), "the manifest's training_info");
  manifest.trainingBytes = training.integer("bytes", 0);
  manifest.updatesBefore = training.integer("updates", 0);
  if (manifest.trainingBytes < 0 || manifest.updatesBefore < 0)
    training.fail("has a negative number");
  keep(training.status());
  for (const auto &[part, text] : top.object("program").items())
    if (text.is_string())
      manifest.program[part] = text.get<std::string>();
    else
      top.fail("describes the program by something that is no text");
  JsonReader defaults(top.object("defaults"), "the manifest's defaults");
  manifest.learningRate = defaults.number("lr", manifest.learningRate);
  manifest.schedule = defaults.text("lr_schedule", manifest.schedule);
  manifest.warmupSteps = defaults.integer("warmup_steps", 0);
  keep(weights.status());
  keep(defaults.status());
  parseMesh(top.array("mesh"));
  parseStages(top);
  for (const Json &item : top.array("inputs"))
    parseInput(item);
  for (const Json &item : top.array("state"))
    parseState(item);
  for (const Json &item : top.array("scalars"))
    manifest.scalars.push_back(parseTensor(item, "scalar", true));
  for (const Json &item : top.array("results"))
    parseOutput(item);
  for (const Json &item : top.array("predictions"))
    parsePrediction(item);
  for (const Json &item : top.array("collectives"))
    parseCollective(item);
  for (const Json &item : top.array("messages"))
    parseMessage(item);
  parseLinks(top.array("links"));
  for (const Json &item : top.array("tasks"))
    if (item.is_string())
      manifest.tasks.push_back(item.get<std::string>());
    else
      top.fail("has a task whose name is no text");
  keep(top.status());
  for (const auto &[function, stages] : top.object("tables").items())
    parseTables(function, stages);
  for (const Json &item : top.array("calls"))
    parseCall(item);
  manifest.expectedStep = top.number("expected_us", 0);
  keep(top.status());
  checkTensors();
  for (int64_t stage = 0; status.ok() && stage < manifest.stages(); ++stage) // (offsets are in the arena then)
    checkOverlap(stage);
  if (status.ok() && top.has("sync"))
    keep(parseSync(top.object("sync"), manifest));
  return status;
}

Result<Manifest> divisi::runtime::parseManifest(std::string_view json, uint64_t arenaBytes) {
  Result<Json> parsed = parseJson(json, "the program's manifest");
  if (!parsed.ok())
    return parsed.status();
  Manifest manifest;
  if (Status status = ManifestParser(manifest, arenaBytes).parse(*parsed); !status.ok())
    return status;
  return manifest;
}

Result<Manifest> divisi::runtime::parseManifest(const DivisiProgram &program) {
  if (program.abi_version != DIVISI_ABI_VERSION)
    return failure("the program has version ", program.abi_version, " of the runtime interface, but version ",
                   DIVISI_ABI_VERSION, " is linked");
  Result<Manifest> manifest = parseManifest({program.manifest, program.manifest_bytes}, program.arena_bytes);
  if (manifest.ok() && manifest->tasks.size() != program.task_count)
    return failure("the program has ", program.task_count, " tasks, but its manifest names ", manifest->tasks.size());
  return manifest;
}
