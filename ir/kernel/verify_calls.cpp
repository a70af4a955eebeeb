// SPDX-License-Identifier: Apache-2.0
// Checks the calls between funcs of kernel scalars: there is no recursion, and a kernel with all calls inlined keeps
// to a maximum size and depth, however often each func calls the next.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/kernel/infer_detail.h"
#include "ir/verify.h"

namespace tg {
namespace {

constexpr int64_t kMostInlined = 1 << 16;  ///< ops of a kernel with all its calls inlined

struct Call {
  const Op* op = nullptr;
  int callee = 0;  ///< index of the func
  int depth = 0;   ///< of the regions around the call
};

/// A kernel or func, its calls, and the results of the depth-first search.
struct Node {
  const Item* item = nullptr;
  std::vector<Call> calls;
  int64_t ops = 0;  ///< its own ops; once it is done, with those of inlined calls
  int depth = 0;    ///< nesting of its regions; likewise
  int order = -1, low = 0, cycle = -1;
};

/// The calls between kernels and funcs as a graph. A component of more than one node, or a call of itself, is a
/// recursion.
class CallGraph {
 public:
  explicit CallGraph(const Module& module);
  Result<void> run();

 private:
  struct Visit {
    int node = 0;
    size_t next = 0;
  };
  void collect(Node& node, const Block& block, int depth);
  void search(int start);
  void close(int node);
  void judge(const Node& node);

  std::vector<Node> nodes_;
  std::unordered_map<std::string_view, int> funcs_;
  std::vector<int> open_;  ///< the stack of Tarjan's algorithm: nodes whose component is not known yet
  int order_ = 0, cycles_ = 0;
  Error errors_;
};

CallGraph::CallGraph(const Module& module) {
  for (const auto& item : module.items) {
    const bool func = isKernelFunc(*item);
    if (!func && item->kind != ItemKind::kernel) continue;
    if (func) funcs_.emplace(item->name, static_cast<int>(nodes_.size()));
    nodes_.emplace_back().item = item.get();
  }
  for (Node& node : nodes_) collect(node, node.item->body, 0);
}

void CallGraph::collect(Node& node, const Block& block, int depth) {
  node.depth = std::max(node.depth, depth);
  for (Op* op : block.ops) {
    ++node.ops;
    if (auto callee = op->code == Opcode::k_call ? funcs_.find(op->operands[0].text) : funcs_.end();
        callee != funcs_.end())
      node.calls.push_back({op, callee->second, depth});
    for (const auto& region : op->regions) collect(node, *region, depth + 1);
  }
}

/// Called when all callees of a node are done. The root of a component pops its nodes off the stack.
void CallGraph::close(int at) {
  Node& node = nodes_[static_cast<size_t>(at)];
  for (const Call& call : node.calls) {
    const Node& callee = nodes_[static_cast<size_t>(call.callee)];
    node.ops = std::min(node.ops + callee.ops, 2 * kMostInlined);
    node.depth = std::min(std::max(node.depth, call.depth + callee.depth), 2 * kMaxNesting);
  }
  if (node.low != node.order) return;
  for (int member = -1; member != at; open_.pop_back()) {
    member = open_.back();
    nodes_[static_cast<size_t>(member)].cycle = cycles_;
  }
  ++cycles_;
}

/// Tarjan's strongly connected components, with an explicit stack instead of recursion.
void CallGraph::search(int start) {
  std::vector<Visit> path;
  auto enter = [&](int at) {
    Node& node = nodes_[static_cast<size_t>(at)];
    node.order = node.low = order_++;
    open_.push_back(at);
    path.push_back({at, 0});
  };
  enter(start);
  while (!path.empty()) {
    auto& [at, next] = path.back();
    Node& node = nodes_[static_cast<size_t>(at)];
    if (next < node.calls.size()) {
      const int callee = node.calls[next++].callee;
      const Node& other = nodes_[static_cast<size_t>(callee)];
      if (other.order < 0)
        enter(callee);
      else if (other.cycle < 0)
        node.low = std::min(node.low, other.order);
      continue;
    }
    close(at);
    const int low = node.low;
    path.pop_back();
    if (path.empty()) continue;
    Node& caller = nodes_[static_cast<size_t>(path.back().node)];
    caller.low = std::min(caller.low, low);
  }
}

void CallGraph::judge(const Node& node) {
  bool leadsBack = false;
  for (const Call& call : node.calls) {
    if (nodes_[static_cast<size_t>(call.callee)].cycle != node.cycle) continue;
    leadsBack = true;
    errors_.append(
        kernel_inference::violation(*call.op, "c3", "@{} would call itself; write a loop", node.item->name));
  }
  if (leadsBack || node.calls.empty()) return;
  const std::string what = fmt::format("{} @{} [kernel.inline]: ", name(node.item->kind), node.item->name);
  if (node.ops > kMostInlined)
    errors_.append(
        failAt(node.item->loc,
               what + fmt::format("it has more than {} ops where its calls are inlined", kMostInlined)));
  else if (node.depth > kMaxNesting)
    errors_.append(failAt(
        node.item->loc,
        what + fmt::format("regions are nested deeper than {} where its calls are inlined", kMaxNesting)));
}

Result<void> CallGraph::run() {
  for (size_t at = 0; at < nodes_.size(); ++at)
    if (nodes_[at].order < 0) search(static_cast<int>(at));
  for (const Node& node : nodes_) judge(node);
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

}  // namespace

Result<void> verifyKernelCalls(const Module& module) { return CallGraph(module).run(); }

}  // namespace tg
