#include "passes/Planning/Search/Planner.h"

#include "passes/Planning/Search/MeshChoice.h"
#include "passes/Planning/Search/PinnedPlaces.h"

#include "llvm/Support/Parallel.h"

#include <cmath>
#include <functional>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// The shares of the communication that may overlap (SearchSpace) that searches take to do so, on every mesh and on the best ones
/// again: the prediction decides among the plans.
constexpr double firstShare[] = {0.5}, moreShares[] = {0, 0.8}, allShares[] = {0.5, 0, 0.8};
constexpr size_t refined = 2;    // meshes
constexpr int refinedOthers = 2; // of each search of these, as many plans of about the same cost are predicted, too
/// Of meshes that are refined, or split further: how much slower than the best plan. (Of 32 searches of large programs, no mesh
/// that was 2 % behind came to the front.)
constexpr double nearBest = 0.05, nearBestOfLarge = 0.02;
constexpr double farFromKnown = 0.1; // how much slower than a known plan those are that are not refined at all
/// Plans from other beginnings are taken only if they are faster by these shares: below them, what the search found is
/// as good, and easier to understand. Of strategies, which somebody could write by hand, and of searches.
constexpr double clearlyByHand = 0.002, clearlyBySearch = 0.01;
/// How often a search is repeated with less memory, where the prediction needs more than the search believed.
constexpr int mostAttempts = 5;
/// Coarse searches: their sums of elimination (SolveOptions), the gap of the first look at the meshes of a large program, and that
/// of further looks, or at three axes. A plan's prediction differs by more than the first from its search's cost.
constexpr double coarseTables = 2e7, firstGap = 2e-2, furtherGap = 1e-2;
/// Three axes are tried where a step waits for at least this share of its time.
constexpr double leastWaited = 0.01;

Mesh meshOf(const char *axis, int64_t devices) {
  Mesh mesh;
  mesh.axes.push_back({axis, devices});
  return mesh;
}

/// Whether one of the searches has found a plan on the mesh that lays everything so.
bool isFound(const std::vector<std::vector<Candidate>> &answers, const Mesh &mesh,
             const std::map<int, Sharding> &places) {
  auto lays = [&](const Candidate &candidate) {
    return candidate.searched && sizesOf(candidate.mesh) == sizesOf(mesh) &&
           llvm::all_of(places, [&](const auto &place) { return candidate.plan.tensors[place.first] == place.second; });
  };
  return llvm::any_of(answers, [&](const std::vector<Candidate> &found) { return llvm::any_of(found, lays); });
}

using Task = std::function<std::vector<Candidate>()>;

std::vector<std::vector<Candidate>> answersTo(const std::vector<Task> &tasks) {
  std::vector<std::vector<Candidate>> answers(tasks.size());
  llvm::parallelFor(0, tasks.size(), [&](size_t i) { answers[i] = tasks[i](); });
  return answers;
}

void append(std::vector<Candidate> &result, std::vector<Candidate> more) {
  std::move(more.begin(), more.end(), std::back_inserter(result));
}

std::vector<Candidate> inParallel(const std::vector<Task> &tasks) {
  std::vector<Candidate> result;
  for (std::vector<Candidate> &found : answersTo(tasks))
    append(result, std::move(found));
  return result;
}

bool isClearlyBetter(const Candidate &other, const Candidate &best) {
  double share = std::isfinite(other.searchCost) ? clearlyBySearch : clearlyByHand;
  return isBetter(other, best) && (!best.fits || other.prediction.seconds < best.prediction.seconds * (1 - share));
}

SolveOptions uncertified() {
  SolveOptions effort;
  effort.certify = false;
  return effort;
}

SolveOptions coarse(double gap) {
  SolveOptions effort = uncertified();
  effort.gap = gap;
  effort.tables = coarseTables;
  return effort;
}

/// The searched plans of the most promising meshes, which are not much slower than the best plan.
std::vector<const Candidate *> bestSearches(const std::vector<Candidate> &candidates, double near) {
  std::vector<const Candidate *> searched;
  for (const Candidate &candidate : candidates)
    if (candidate.searched)
      searched.push_back(&candidate);
  llvm::stable_sort(searched, [](auto *a, auto *b) { return isBetter(*a, *b); });
  searched.resize(std::min(searched.size(), refined));
  llvm::erase_if(searched, [most = fastest(candidates) * (1 + near)](const Candidate *candidate) {
    return candidate->prediction.seconds > most;
  });
  return searched;
}

/// Of several searches of one mesh, the best stays.
void keepBestSearches(std::vector<Candidate> &candidates) {
  std::map<std::string, size_t> best;
  for (auto [i, candidate] : llvm::enumerate(candidates))
    if (auto [it, fresh] = best.try_emplace(candidate.name, i); !fresh && isBetter(candidate, candidates[it->second]))
      it->second = i;
  std::vector<Candidate> kept;
  for (auto [i, candidate] : llvm::enumerate(candidates))
    if (best.at(candidate.name) == i)
      kept.push_back(std::move(candidate));
  candidates = std::move(kept);
}
} // namespace

Planner::Planner(Problem what, Cluster where)
    : problem(std::move(what)), cluster(std::move(where)), step(problem, /*evaluation=*/false),
      stepItems(problem, /*evaluation=*/false, cluster.device.kind == "cuda", step) {}

const Candidate &Planner::alone() const {
  return one ? *one : one.emplace(price(cluster, meshOf("data", 1), unsplit(problem), "one device"));
}

double Planner::computation(const Cluster &on) const {
  return price(on, meshOf("data", 1), unsplit(problem), "").prediction.compute;
}

double Planner::leastSeconds(int64_t devices) const {
  Cluster single = cluster.used(1);
  const Cluster::Device &device = single.device;
  const bool packs = !device.packings.empty();
  if (packs && !unpacked) { // parts may be squarer, and need no packing at all
    single.device.packings.clear();
    unpacked = price(single, meshOf("data", 1), unsplit(problem), "").prediction;
  }
  const Prediction &one = packs ? *unpacked : alone().prediction;
  const Cluster::Device many = cluster.used(devices).device;
  const double faster = mostTimesFaster(device, many, devices), flops = fastestMatmuls(many) * (double)devices;
  const Mesh mesh = meshOf("data", 1);
  const Plan whole = unsplit(problem);
  double seconds = 0;
  for (auto [i, op, launches, alone] : llvm::enumerate(problem.ops, one.launches, one.operations)) {
    double least = alone / faster;
    if (op.form == graph::Form::product && !device.batches.empty()) // parts of a batch may be on more threads
      if (const step::Work work = localWork(problem, op, mesh, whole.ops[i]); work.batch > 1 && !work.images)
        least = std::min(least, work.flops / flops);
    seconds += (double)op.repeats * std::max(launches * device.launch, least);
  }
  return seconds;
}

bool Planner::isSettled(const Candidate &plan, int64_t devices) const {
  return plan.fits && plan.mesh.devices() == 1 &&
         plan.prediction.seconds <= leastSeconds(devices) * (1 + sameTime);
}

Candidate Planner::price(const Cluster &on, const Mesh &mesh, Plan plan, std::string name) const {
  Expansion expansion = expand(problem, mesh, plan);
  return price(on, mesh, std::move(plan), std::move(name), expansion);
}

Candidate Planner::price(const Cluster &on, const Mesh &mesh, Plan plan, std::string name,
                         const Expansion &expansion) const {
  Candidate result{std::move(name), mesh, std::move(plan), {}};
  const Cluster used = on.used(mesh.devices());
  result.prediction = predict(problem, step, stepItems, CostModel(used, mesh), result.plan, expansion);
  result.fits = result.prediction.memory.total() <= used.device.memory;
  result.error = used.device.kind == "cpu" ? sameTimeOfProcessors : sameTime;
  return result;
}

Planner::Spaces Planner::spacesOf(llvm::ArrayRef<Mesh> meshes) const {
  Spaces spaces;
  std::vector<std::pair<const Mesh *, std::shared_ptr<const SearchSpace> *>> empty;
  {
    std::lock_guard lock(building);
    for (const Mesh &mesh : meshes)
      if (auto [it, fresh] = spaces.try_emplace(sizesOf(mesh)); fresh) {
        if (auto known = built.find(it->first); known != built.end())
          it->second = known->second;
        else
          empty.emplace_back(&mesh, &it->second);
      }
  }
  llvm::parallelFor(0, empty.size(), [&](size_t i) { *empty[i].second = spaceOf(*empty[i].first, {}, nullptr); });
  std::lock_guard lock(building);
  built.insert(spaces.begin(), spaces.end());
  return spaces;
}

std::shared_ptr<const SearchSpace> Planner::spaceOf(const Mesh &mesh, const std::map<int, Sharding> &pins,
                                                    const SearchSpace *known) const {
  std::call_once(searching, [&] { stepKinds.emplace(problem, step, stepItems); });
  return std::make_shared<SearchSpace>(problem, step, stepItems, *stepKinds,
                                       CostModel(cluster.used(mesh.devices()), mesh), pins, known);
}

std::vector<Candidate> Planner::search(const Spaces &spaces, const Mesh &mesh, const std::map<int, Sharding> &places,
                                       llvm::ArrayRef<double> shares, SolveOptions effort, PlanLimit limit) const {
  const double memory = cluster.used(mesh.devices()).device.memory;
  std::shared_ptr<const SearchSpace> space = spaces.at(sizesOf(mesh));
  std::optional<Candidate> best;
  double unforeseen = 0; // memory that predictions need beyond what the search counts
  for (double hidden : shares) {
    auto pairwise = space->pairwise(hidden, places);
    if (!pairwise) {
      space = spaceOf(mesh, places, space.get()); // for places that no strategy of the argument has
      pairwise = space->pairwise(hidden, places);
    }
    effort.limit = 1e6 * limit.cost(hidden);
    bool settled = false;
    for (int attempt = 0; attempt < mostAttempts && !settled; ++attempt) {
      pairwise->capacity = memory - unforeseen;
      Solution solution = solve(*pairwise, effort);
      if (solution.overLimit)
        break;
      auto candidateOf = [&](const std::vector<int> &choice) {
        Plan plan = unsplit(problem);
        space->decide(choice, places, plan);
        Candidate found = price(cluster, mesh, std::move(plan), "auto " + nameOf(mesh));
        found.searched = true;
        found.hidden = hidden;
        found.hideable = space->hideable(choice, places) * 1e-6;
        found.searchCost = solution.cost * 1e-6;
        found.bound = effort.certify && std::isfinite(solution.bound) ? solution.bound * 1e-6 : 0;
        return found;
      };
      Candidate found = candidateOf(solution.choice);
      unforeseen = std::max(unforeseen, found.prediction.memory.total() - solution.memory);
      settled = found.fits || solution.infeasible || unforeseen >= memory;
      for (const std::vector<int> &choice : solution.others)
        if (Candidate other = candidateOf(choice);
            isBetter(other, found) && (!found.fits || other.prediction.seconds * (1 + sameTime) < found.prediction.seconds))
          found = std::move(other);
      if (!best || isBetter(found, *best))
        best = std::move(found);
    }
  }
  return best ? std::vector<Candidate>{std::move(*best)} : std::vector<Candidate>();
}

std::vector<Candidate> Planner::searchNear(const Candidate &candidate, int parameter,
                                           llvm::ArrayRef<Sharding> shardings) const {
  const Spaces spaces = spacesOf(candidate.mesh);
  std::vector<Task> tasks;
  for (const Sharding &sharding : shardings)
    tasks.push_back([&] {
      std::map<int, Sharding> places;
      for (auto [t, tensor] : llvm::enumerate(problem.tensors))
        if (tensor.role == Problem::Role::parameter)
          places[t] = tensor.name == problem.tensors[parameter].name ? sharding : candidate.plan.tensors[t];
      auto far = search(spaces, candidate.mesh, {{parameter, sharding}}, firstShare, effort(furtherGap)),
           near = search(spaces, candidate.mesh, places, candidate.hidden, effort(furtherGap));
      return isBetter(near[0], far[0]) ? near : far;
    });
  return inParallel(tasks);
}

SolveOptions Planner::effort(double gap) const {
  return problem.ops.size() > mostThorough ? coarse(gap) : uncertified();
}

llvm::Expected<std::vector<Candidate>> Planner::candidates(const PlannerOptions &options) const {
  auto found = allCandidates(options);
  {
    std::vector<int64_t> best;
    if (found && !found->empty())
      best = sizesOf(llvm::min_element(*found, isBetter)->mesh);
    std::lock_guard lock(building);
    std::erase_if(built, [&](const auto &space) { return space.first != best; }); // what comes later asks for this mesh
  }
  return found;
}

llvm::Expected<std::vector<Candidate>> Planner::allCandidates(const PlannerOptions &options) const {
  auto first = firstCandidates(options);
  if (!first || !options.thorough || first->empty() || fastest(*first) > options.best * (1 + farFromKnown))
    return first;
  std::vector<Candidate> result = std::move(*first);
  auto best = [&] { return *std::min_element(result.begin(), result.end(), isBetter); };
  auto addClearlyBetter = [&](std::vector<Candidate> others) {
    const Candidate before = best();
    for (Candidate &other : others)
      if (isClearlyBetter(other, before))
        result.push_back(std::move(other));
  };
  if (isSettled(best(), options.devices()))
    return result;
  const bool small = problem.ops.size() <= mostThorough;
  if (options.wider) {
    if (small)
      addClearlyBetter(withThirdAxis(options, result));
    append(result, onFewerDevices(options, result));
  }
  refine(options.pins, result);
  if (small)
    addClearlyBetter(otherBeginnings(options, PlanLimit{fastest(result)}));
  keepBestSearches(result);
  return result;
}

llvm::Expected<std::vector<Candidate>> Planner::firstCandidates(const PlannerOptions &options, PlanLimit limit) const {
  std::vector<Task> tasks;
  std::vector<std::pair<size_t, Mesh>> ofStrategies; // tasks
  std::string wrong;                                 // with the pins, on one of the meshes
  std::vector<Candidate> result;
  if (options.alone && options.pins.empty())
    result.push_back(alone());
  const bool settled = !result.empty() && isSettled(result[0], options.devices());
  const bool thorough = options.thorough && problem.ops.size() <= mostThorough;
  const bool quick = std::isfinite(limit.seconds) && problem.ops.size() > mostThorough;
  const Spaces spaces = options.searches ? spacesOf(options.meshes) : Spaces();
  auto follow = [&](Mesh mesh, int zero, bool further = true) { // a search may begin with it
    if (further)
      ofStrategies.emplace_back(tasks.size(), mesh);
    tasks.push_back([&, mesh, zero] { return strategy(mesh, options.pins, zero, /*evenIfWhole=*/!options.wider || problem.ops.size() <= mostThorough); });
  };
  for (const Mesh &mesh : options.meshes) {
    const bool exchanged = hasNamesExchanged(mesh, options.meshes);
    if (exchanged && !thorough)
      continue;
    auto places = placesOf(problem, mesh, options.pins);
    if (!places) { // pins may name axes that only other meshes have
      wrong = llvm::toString(places.takeError());
      continue;
    }
    if (options.searches && (!exchanged || !options.pins.empty()))
      tasks.push_back([&, places = *places] { return search(spaces, mesh, places, firstShare, effort(firstGap), limit); });
    const bool left = mesh.axes.size() > 1 && options.meshes.size() > 1 && !thorough;
    if (!options.searches || (left && options.everyMesh))
      tasks.push_back([&, mesh, places = *places] {
        auto found = fittingStrategies(mesh, options.pins);
        if (!found.empty() || options.searches)
          return found;
        return search(spacesOf(mesh), mesh, places, firstShare, effort(firstGap), limit); // sizes do not divide
      });
    if (!options.searches && options.operators && mesh.axes.size() == 1 && mesh.axes[0].name != "model")
      tasks.push_back([&, mesh] { return fittingStrategies(meshOf("model", mesh.devices()), options.pins); });
    if (left || !options.searches || quick)
      continue;
    for (int zero : {0, 1, 3}) // (2 is the same plan as 1)
      if (zero == 0 || mesh.find("data"))
        follow(mesh, zero);
    if (mesh.axes.size() != 1 || !options.operators)
      continue;
    const Mesh operators = meshOf("model", mesh.devices());
    if (mesh.axes[0].name != "model")
      follow(operators, 0);
    if (options.pins.empty())
      for (const Mesh &other : meshesForGroups(problem, operators))
        follow(other, 0, /*further=*/false);
  }
  std::vector<std::vector<Candidate>> answers = answersTo(tasks);
  limit.seconds = std::min(limit.seconds, fastest(result));
  for (const std::vector<Candidate> &found : answers)
    limit.seconds = std::min(limit.seconds, fastest(found));
  tasks.clear();
  for (const auto &[task, mesh] : ofStrategies)
    tasks.push_back([&, &found = answers[task], &mesh = mesh]() -> std::vector<Candidate> {
      if (!thorough || !options.searches || settled || found.empty())
        return {};
      const auto places = statesOf(problem, found[0].plan, options.pins);
      if (isFound(answers, mesh, places))
        return {};
      return search(spaces, mesh, places, firstShare, effort(firstGap), limit);
    });
  auto further = answersTo(tasks);
  for (auto [i, strategy] : llvm::enumerate(ofStrategies))
    append(answers[strategy.first], std::move(further[i]));
  for (std::vector<Candidate> &found : answers)
    append(result, std::move(found));
  if (result.empty() && !wrong.empty())
    return llvm::createStringError(wrong);
  keepBestSearches(result);
  return result;
}

std::vector<Candidate> Planner::withThirdAxis(const PlannerOptions &options,
                                              const std::vector<Candidate> &found) const {
  std::vector<Mesh> meshes;
  auto isKnown = [&](const Mesh &mesh) { // what axes are called is of no account
    return llvm::any_of(meshes, [&](const Mesh &other) { return sizesOf(mesh) == sizesOf(other); });
  };
  for (const Candidate *candidate : bestSearches(found, nearBest))
    for (Mesh &mesh : splitAxes(cluster, candidate->mesh))
      if (candidate->prediction.waited > leastWaited * candidate->prediction.seconds && !isKnown(mesh))
        meshes.push_back(std::move(mesh));
  std::vector<Task> tasks;
  for (const Mesh &mesh : meshes)
    tasks.push_back([&]() -> std::vector<Candidate> {
      auto places = llvm::expectedToOptional(placesOf(problem, mesh, options.pins));
      return places ? search(spacesOf(mesh), mesh, *places, firstShare, coarse(furtherGap)) : std::vector<Candidate>();
    });
  return inParallel(tasks);
}

std::vector<Candidate> Planner::otherBeginnings(const PlannerOptions &options, PlanLimit limit) const {
  std::vector<Task> tasks;
  const Spaces spaces = spacesOf(options.meshes);
  for (const Mesh &mesh : options.meshes) {
    auto places = llvm::expectedToOptional(placesOf(problem, mesh, options.pins));
    if (!places || hasNamesExchanged(mesh, options.meshes))
      continue;
    tasks.push_back([&, whole = withWholeMatrices(problem, std::move(*places))] {
      return search(spaces, mesh, whole, allShares, uncertified(), limit);
    });
    for (std::vector<Pin> &pins : withSplitInputs(problem, mesh, options.pins))
      tasks.push_back([&, pins = std::move(pins)] { return strategies(mesh, pins); });
  }
  return inParallel(tasks);
}

std::vector<Candidate> Planner::strategies(const Mesh &mesh, const std::vector<Pin> &pins) const {
  std::vector<Candidate> found;
  for (int zero : {0, 1, 3}) {
    auto plan = planIfAny(problem, mesh, {pins, zero});
    if (!plan)
      continue;
    found.push_back(price(cluster, mesh, *plan, "auto " + nameOf(mesh)));
    found.back().searched = true;
    found.back().hidden = firstShare[0];
    found.back().searchCost = std::numeric_limits<double>::infinity(); // of no search
  }
  return found;
}

void Planner::refine(const std::vector<Pin> &pins, std::vector<Candidate> &candidates) const {
  const bool large = problem.ops.size() > mostThorough;
  const std::vector<const Candidate *> searched = bestSearches(candidates, large ? nearBestOfLarge : nearBest);
  std::vector<Task> tasks;
  std::vector<Mesh> meshes;
  for (const Candidate *candidate : searched)
    meshes.push_back(candidate->mesh);
  const Spaces spaces = spacesOf(meshes);
  SolveOptions options = effort(furtherGap);
  options.others = refinedOthers;
  for (const Candidate *candidate : searched)
    for (double share : moreShares) {
      const double dearer = candidate->hideable * (candidate->hidden - share); // with less overlap no plan costs less
      if (share < candidate->hidden && dearer < sameTime * candidate->searchCost)
        continue;
      tasks.push_back([&, candidate, share] {
        auto places = llvm::cantFail(placesOf(problem, candidate->mesh, pins)); // (which held there before)
        return search(spaces, candidate->mesh, places, share, options);
      });
    }
  for (Candidate &other : inParallel(tasks))
    candidates.push_back(std::move(other));
  keepBestSearches(candidates);
}

void Planner::certify(const std::vector<Pin> &pins, Candidate &candidate) const {
  auto places = llvm::cantFail(placesOf(problem, candidate.mesh, pins)); // (which held there before)
  SolveOptions effort;
  effort.others = refinedOthers;
  Candidate found =
      std::move(search(spacesOf(candidate.mesh), candidate.mesh, places, candidate.hidden, effort).front());
  if (isBetter(candidate, found)) {
    candidate.searchCost = found.searchCost; // with the bound of the same search
    candidate.bound = found.bound;
  } else {
    found.name = std::move(candidate.name);
    candidate = std::move(found);
  }
  candidate.boundMesh = nameOf(candidate.mesh);
}

void Planner::complete(Candidate &candidate) const {
  if (!candidate.searched)
    return;
  CostModel costs(cluster.used(candidate.mesh.devices()), candidate.mesh);
  const Groups rest(problem, /*evaluation=*/true);
  FusedProblem items(problem, /*evaluation=*/true, cluster.device.kind == "cuda", rest);
  const auto places = placesOf(problem, candidate.mesh, candidate.plan);
  const GroupKinds kinds(problem, rest, items);
  SearchSpace space(problem, rest, items, kinds, costs, places);
  space.decide(solve(*space.pairwise(0, places), uncertified()).choice, places, candidate.plan);
}
