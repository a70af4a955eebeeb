// SPDX-License-Identifier: Apache-2.0
#include "ir/dims.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ir/text.h"

namespace tg {

namespace {

/// Whether the text can be written as a name: true, false, inf and nan are read as values.
bool isDimName(std::string_view text) {
  if (text == "true" || text == "false" || text == "inf" || text == "nan") return false;
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// An argument, parameter or state.
struct Holder {
  std::string name;  ///< with '%' or '@'
  const Type& type;
  const AttrList& attrs;
  const Loc& loc;
  bool isArgument = false;
};

struct FirstUse {
  int64_t extent = 0;
  std::string holder;
  Loc loc;
};
using KnownDims = std::map<std::string, FirstUse, std::less<>>;

/// Checks the names of one module: those of each holder are well formed, and each name has one extent within its
/// function.
class DimsVerifier {
 public:
  Result<void> run(const Module& module) {
    KnownDims stored;
    for (const auto& item : module.items)
      if (isStorage(item->kind)) check({"@" + item->name, item->type, item->attrs, item->loc, false}, stored);
    for (const Item* func : module.all(ItemKind::func)) {
      KnownDims known = stored;
      for (const auto& arg : func->body.args)
        check({"%" + arg->name, arg->type, arg->attrs, arg->loc, true}, known);
    }
    if (errors_.empty()) return {};
    return std::move(errors_);
  }

 private:
  void check(const Holder& holder, KnownDims& known) {
    if (!holder.type.isTensor() || !formed(holder)) return;
    const std::vector<std::string> names = dimsOf(holder.attrs, holder.type.rank());
    for (size_t axis = 0; axis < names.size(); ++axis) {
      if (names[axis].empty()) continue;
      const int64_t extent = holder.type.shape[static_cast<int>(axis)];
      auto [first, added] = known.emplace(names[axis], FirstUse{extent, holder.name, holder.loc});
      if (added || first->second.extent == extent) continue;
      const FirstUse& other = first->second;
      errors_.append(failAt(holder.loc, "the {} of {} is {}, that of {} is {}", names[axis], holder.name,
                            extent, other.holder, other.extent)
                         .note(other.loc, "{} is here", other.holder));
    }
  }

  /// Whether the attributes are well formed; reports it if not.
  bool formed(const Holder& holder) {
    auto bad = [&](const std::string& message) {
      errors_.append(failAt(holder.loc, "{}: {}", holder.name, message));
      return false;
    };
    const Attr* batch = holder.isArgument ? find(holder.attrs, kBatchDim) : nullptr;
    const Attr* dims = find(holder.attrs, "dims");
    if (batch && dims) return bad("attribute 'batch' is given besides 'dims'; name the batch in 'dims'");
    if (batch &&
        (batch->kind != Attr::Kind::integer || batch->integer < 0 || batch->integer >= holder.type.rank()))
      return bad(fmt::format("attribute 'batch' is an axis of {}, not {}", holder.type.str(), batch->str()));
    if (!dims) return true;
    if (dims->kind != Attr::Kind::array)
      return bad(fmt::format("attribute 'dims' is a list of names such as [batch, _], not {}", dims->str()));
    for (const Attr& each : dims->list)
      if (each.kind != Attr::Kind::word || !isDimName(each.text))
        return bad(
            fmt::format("attribute 'dims' holds names of letters, digits and '_', not {}", each.str()));
    if (dims->list.size() != static_cast<size_t>(holder.type.rank()))
      return bad(fmt::format("attribute 'dims' gives {} for the {} of {}; _ is not a name",
                             countText(dims->list.size(), "name"),
                             countText(holder.type.rank(), "axis", "axes"), holder.type.str()));
    const size_t batches = axesNamed(holder.attrs, holder.type.rank(), kBatchDim).size();
    if (batches > 1 || (batches == 1 && !holder.isArgument))
      return bad(holder.isArgument ? "two axes are called batch"
                                   : "no axis can be the batch, for it outlasts calls of any batch");
    return true;
  }

  Error errors_;
};

}  // namespace

std::vector<std::string> dimsOf(const AttrList& attrs, int rank) {
  if (const Attr* dims = find(attrs, "dims")) {
    std::vector<std::string> names;
    for (const Attr& each : dims->list) names.push_back(each.text == "_" ? "" : each.text);
    return names;
  }
  const Attr* batch = find(attrs, kBatchDim);
  if (!batch || batch->kind != Attr::Kind::integer || batch->integer < 0 || batch->integer >= rank) return {};
  std::vector<std::string> names(static_cast<size_t>(rank));
  names[static_cast<size_t>(batch->integer)] = kBatchDim;
  return names;
}

std::vector<int> axesNamed(const AttrList& attrs, int rank, std::string_view name) {
  const std::vector<std::string> names = dimsOf(attrs, rank);
  std::vector<int> axes;
  for (size_t axis = 0; axis < names.size(); ++axis)
    if (names[axis] == name) axes.push_back(static_cast<int>(axis));
  return axes;
}

int batchAxis(const Value& argument) {
  const std::vector<int> axes = axesNamed(argument.attrs, argument.type.rank(), kBatchDim);
  return axes.empty() ? -1 : axes.front();
}

int64_t batchSize(const Item& func) {
  for (const auto& arg : func.body.args)
    if (const int axis = batchAxis(*arg); axis >= 0) return arg->type.shape[axis];
  return 0;
}

Result<void> verifyDims(const Module& module) { return DimsVerifier().run(module); }

Attr dimsAttr(const std::vector<std::string>& names) {
  std::vector<Attr> words;
  words.reserve(names.size());
  for (const std::string& name : names) words.push_back(Attr::word(name.empty() ? "_" : name));
  return Attr::array(std::move(words));
}

}  // namespace tg
