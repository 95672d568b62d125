#include "passes/Planning/Pipeline/LayerGraph.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

using namespace divisi::planning;

namespace {

using Lists = std::vector<std::vector<int>>;

Lists consumersOf(const LayerProfile &profile) {
  Lists consumers(profile.layers.size());
  for (auto [i, layer] : llvm::enumerate(profile.layers))
    for (int input : layer.inputs)
      consumers[input].push_back(static_cast<int>(i));
  return consumers;
}

void sortUnique(std::vector<int> &list) {
  llvm::sort(list);
  list.erase(llvm::unique(list), list.end());
}

/// The strongly connected components of a graph, by Tarjan's algorithm without recursion.
class Components {
public:
  explicit Components(const Lists &next) : next(next), number(next.size(), -1), low(next.size()) {
    for (size_t root = 0; root < next.size(); ++root)
      if (number[root] < 0)
        visit(static_cast<int>(root));
  }
  Lists components;

private:
  void visit(int root) {
    std::vector<std::pair<int, size_t>> path{{root, 0}}; // nodes and their next edges
    while (!path.empty()) {
      auto [node, edge] = path.back();
      if (edge == 0 && number[node] < 0) {
        number[node] = low[node] = count++;
        open.push_back(node);
      }
      if (edge < next[node].size()) {
        ++path.back().second;
        int to = next[node][edge];
        if (number[to] < 0)
          path.emplace_back(to, 0);
        else if (number[to] < done)
          low[node] = std::min(low[node], number[to]);
        continue;
      }
      path.pop_back();
      if (!path.empty())
        low[path.back().first] = std::min(low[path.back().first], low[node]);
      if (low[node] != number[node])
        continue;
      std::vector<int> &component = components.emplace_back();
      for (int member = -1; member != node;) {
        member = open.back();
        open.pop_back();
        component.push_back(member);
        number[member] = done;
      }
    }
  }

  static constexpr int done = std::numeric_limits<int>::max();
  const Lists &next;
  std::vector<int> number, low, open;
  int count = 0;
};

} // namespace

LayerGroups::LayerGroups(size_t layers) : parent(layers), sizes(layers, 1) {
  std::iota(parent.begin(), parent.end(), 0);
}

int LayerGroups::find(int layer) const {
  while (parent[layer] != layer)
    layer = parent[layer] = parent[parent[layer]];
  return layer;
}

bool LayerGroups::unite(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b)
    return false;
  if (sizes[a] < sizes[b])
    std::swap(a, b);
  parent[b] = a;
  sizes[a] += sizes[b];
  return true;
}

void LayerGroups::joinFreeLayers(const LayerProfile &profile) {
  Lists consumers = consumersOf(profile);
  auto isFree = [&](const LayerProfile::Layer &layer) {
    return layer.forwardMs + layer.backwardMs == 0 && layer.parameterBytes == 0;
  };
  // With its producer: its output replaces inputs that nothing else reads.
  for (auto [i, layer] : llvm::enumerate(profile.layers)) {
    if (!isFree(layer) || layer.inputs.empty())
      continue;
    int v = static_cast<int>(i), group = find(layer.inputs[0]);
    if (!llvm::all_of(layer.inputs, [&](int input) { return find(input) == group; }))
      continue;
    double replaced = 0;
    for (int input : layer.inputs)
      if (llvm::all_of(consumers[input], [&](int other) { return other == v || find(other) == group; }))
        replaced += profile.layers[input].activationBytes;
    if (consumers[v].empty() || layer.activationBytes <= replaced)
      unite(v, group);
  }
  // With its consumer: its inputs are no larger than its output.
  for (int v = static_cast<int>(profile.layers.size()) - 1; v >= 0; --v) {
    const LayerProfile::Layer &layer = profile.layers[v];
    if (!isFree(layer) || size(v) > 1 || consumers[v].empty())
      continue;
    int group = find(consumers[v][0]);
    double inputs = 0;
    for (int input : layer.inputs)
      inputs += profile.layers[input].activationBytes;
    if (inputs <= layer.activationBytes && llvm::all_of(consumers[v], [&](int c) { return find(c) == group; }))
      unite(v, group);
  }
}

void LayerGroups::joinAcross(const LayerProfile &profile, double most) {
  bool any = false;
  for (auto [i, layer] : llvm::enumerate(profile.layers))
    for (int input : layer.inputs)
      if (profile.layers[input].activationBytes > most)
        any |= unite(input, static_cast<int>(i));
  if (!any)
    return;
  Lists next(profile.layers.size()); // by groups
  for (auto [i, layer] : llvm::enumerate(profile.layers))
    for (int input : layer.inputs)
      if (find(input) != find(static_cast<int>(i)))
        next[find(input)].push_back(find(static_cast<int>(i)));
  for (const std::vector<int> &component : Components(next).components)
    for (int other : component)
      unite(component[0], other);
}

LayerGraph::LayerGraph(const LayerProfile &profile, const LayerGroups &groups) {
  size_t count = profile.layers.size();
  Lists inputs(count), consumers(count), members(count); // by group
  std::vector<size_t> missing(count);
  for (auto [i, layer] : llvm::enumerate(profile.layers)) {
    int group = groups.find(static_cast<int>(i));
    members[group].push_back(static_cast<int>(i));
    for (int input : layer.inputs)
      if (groups.find(input) != group)
        inputs[group].push_back(groups.find(input));
  }
  using Entry = std::pair<int, int>; // the first layer of a group, the group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t group = 0; group < count; ++group) {
    sortUnique(inputs[group]);
    missing[group] = inputs[group].size();
    for (int input : inputs[group])
      consumers[input].push_back(static_cast<int>(group));
    if (!members[group].empty() && missing[group] == 0)
      ready.emplace(members[group].front(), group);
  }
  std::vector<int> place(count, -1); // by group: its node
  while (!ready.empty()) {
    int group = ready.top().second;
    ready.pop();
    place[group] = size();
    Node &node = nodes.emplace_back();
    node.layers = members[group];
    for (int input : inputs[group]) {
      node.inputs.push_back(place[input]);
      nodes[place[input]].consumers.push_back(place[group]);
    }
    llvm::sort(node.inputs);
    for (int layer : node.layers) {
      node.ms += profile.layers[layer].forwardMs + profile.layers[layer].backwardMs;
      node.parameterBytes += profile.layers[layer].parameterBytes;
    }
    for (int consumer : consumers[group])
      if (--missing[consumer] == 0)
        ready.emplace(members[consumer].front(), consumer);
  }
  Lists readers(count); // by layer: nodes
  for (auto [i, layer] : llvm::enumerate(profile.layers))
    for (int input : layer.inputs)
      if (int at = place[groups.find(static_cast<int>(i))]; at != place[groups.find(input)])
        readers[input].push_back(at);
  for (auto [i, list] : llvm::enumerate(readers)) {
    sortUnique(list);
    if (list.empty())
      continue;
    int value = static_cast<int>(values.size());
    values.push_back({profile.layers[i].activationBytes, list});
    nodes[place[groups.find(static_cast<int>(i))]].produced.push_back(value);
    for (int reader : list)
      nodes[reader].consumed.push_back(value);
  }
}

LayerGraph LayerGraph::restricted(const std::vector<int> &order, const std::vector<Window> &windows) const {
  LayerGraph result = *this;
  std::vector<int> place(order.size());
  for (auto [i, node] : llvm::enumerate(order))
    place[node] = static_cast<int>(i);
  auto move = [&](std::vector<int> &list) {
    for (int &node : list)
      node = place[node];
    llvm::sort(list);
  };
  for (Value &value : result.values)
    move(value.consumers);
  for (auto [i, node] : llvm::enumerate(order)) {
    result.nodes[i] = nodes[node];
    move(result.nodes[i].inputs);
    result.nodes[i].consumers.clear();
  }
  auto window = windows.begin();
  for (int i = 0; i < size(); ++i) {
    if (window != windows.end() && i == window->end)
      ++window;
    std::vector<int> &before = result.nodes[i].inputs;
    if (window == windows.end() || i < window->first) {
      bool behind = window != windows.begin() && i == window[-1].end;
      int from = behind ? window[-1].first : i - 1; // the window's nodes all come first
      for (int other = std::max(from, 0); other < i; ++other)
        before.push_back(other);
    } else if (window->first > 0) {
      before.push_back(window->first - 1);
    }
    sortUnique(before);
    for (int input : before)
      result.nodes[input].consumers.push_back(i);
  }
  return result;
}
