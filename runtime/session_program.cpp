// SPDX-License-Identifier: Apache-2.0
#include "runtime/session_program.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/divide.h"
#include "ir/file_io.h"
#include "ir/parser.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/batch.h"
#include "runtime/interp_runner.h"
#include "runtime/matrix_units.h"
#include "runtime/train/plan_report.h"

namespace tg {

namespace {

std::map<std::string, Type, std::less<>> capturesOf(const Item& func) {
  std::map<std::string, Type, std::less<>> out;
  for (Op* op : func.body.ops)
    if (op->code == Opcode::capture) out.emplace(op->word("name"), op->in(0)->type);
  return out;
}

int64_t persistentBytes(const Module& module) {
  const Item* buffer = module.find(ItemKind::buffer, "persistent");
  return buffer ? buffer->bytes : 0;
}

}  // namespace

void SessionProgram::tell(Severity severity, std::string message) const {
  if (options_.onDiagnostic) options_.onDiagnostic({severity, nullptr, std::move(message), {}});
}

Target SessionProgram::target() const {
  if (options_.target) return *options_.target;
  return device_ ? device_->info().target : Target{};
}

Target SessionProgram::target(const Module& module) const {
  if (options_.target || !device_) return target();
  ChosenTarget chosen = targetFor(module, device_, options_.cache);
  if (!chosen.note.empty()) tell(Severity::remark, std::move(chosen.note));
  return std::move(chosen.target);
}

CompileOptions SessionProgram::passes(const std::string& pipeline) const {
  CompileOptions out;
  out.pipeline = pipeline;
  out.until = Stage::tensor;
  out.onDiagnostic = options_.onDiagnostic;
  return out;
}

CompileOptions SessionProgram::compileOptions(int64_t reserve) const {
  CompileOptions out;
  out.keepCaptures = options_.keepCaptures;
  out.keepGrads = options_.keepGrads;
  out.tuning = options_.tuning;
  out.budget = options_.memory;
  out.shaders = shaderFolder(options_.cache);
  out.reserve = reserve;
  out.onDiagnostic = options_.onDiagnostic;
  return out;
}

Result<std::unique_ptr<SessionProgram>> SessionProgram::create(std::unique_ptr<Module> module,
                                                               const SessionOptions& options,
                                                               std::shared_ptr<vulkan::Device> device) {
  std::unique_ptr<SessionProgram> program(new SessionProgram(options));
  program->device_ = std::move(device);
  TG_CHECK(verify(*module));
  TG_CHECK(program->checkOptions(*module));
  program->describeDevice();
  TG_CHECK(program->borrow(*module));
  TG_CHECK(program->compile(std::move(module)));
  TG_CHECK(program->checkParts());
  TG_CHECK(program->makeRunner());
  program->measure();
  return program;
}

/// Checks the options here, as the interpreter neither plans nor chooses schedules and would not report errors in them.
Result<void> SessionProgram::checkOptions(const Module& module) const {
  std::map<std::string, const Item*> functions;
  for (const Item* func : module.all(ItemKind::func)) functions.emplace(func->name, func);
  if (options_.trainFunction != SessionOptions().trainFunction && !functions.contains(options_.trainFunction))
    return noFunction(options_.trainFunction, functions)
        .note(nullptr, "trainFunction of the session names it");
  return checkLaterOptions(compileOptions(0));
}

Result<void> SessionProgram::checkParts() const {
  const int64_t every = update_ ? find(update_->attrs, "every")->integer : 1;
  if (options_.parts >= 1 && every % options_.parts == 0) return {};
  return fail("a step of {} parts needs append-grad{{accumulate={}}} or a multiple of it; the module updates "
              "after {}",
              options_.parts, options_.parts, countText(every, "call"));
}

void SessionProgram::describeDevice() {
  if (!device_) {
    info_.device = "interp";
    info_.why = "the reference interpreter was asked for";
    return;
  }
  info_.device = device_->info().name;
  info_.why = device_->why();
  info_.driver = device_->info().driver;
}

Result<void> SessionProgram::checkBorrowed(const Item& param, const ParamBuffer& shared) const {
  bool here = device_ ? shared.buffer && &shared.buffer->device() == device_.get() : shared.array != nullptr;
  if (!here)
    return failAt(param.loc,
                  "sharedParams: @{} lives on {}, this session runs on {}{}: give both sessions one device, "
                  "options.device = other.device()",
                  param.name, shared.device, info_.device,
                  shared.device == info_.device ? ", opened once more" : "");
  if (shared.type == param.type) return {};
  return failAt(param.loc, "sharedParams: @{} is {} ({} bytes) here, and {} ({} bytes) there", param.name,
                param.type.str(), param.type.bytes(), shared.type.str(), shared.type.bytes());
}

// Each buffer that holds a shared parameter becomes a window on the first bytes of @persistent, so that parameters that
// are adjoined in the buffer are adjoined here too. The parameters get their homes before compilation.
Result<void> SessionProgram::borrow(Module& module) {
  turns_ = {turn_};
  int64_t step = std::max<int64_t>(256, target().alignment);
  std::map<const vulkan::Buffer*, int64_t> bases;
  for (Item* param : module.all(ItemKind::param)) {
    const ParamBuffer* shared = valueIn(options_.sharedParams, param->name);
    if (!shared) continue;
    TG_CHECK(checkBorrowed(*param, *shared));
    if (module.stage > Stage::fused)
      return failAt(param->loc,
                    "sharedParams: @{} has its home already, since the module is of stage {}; give one of "
                    "stage tensor or fused",
                    param->name, name(module.stage));
    borrowed_.emplace(param->name, *shared);
    if (shared->turn) turns_.push_back(shared->turn);
    if (!device_) continue;
    const int64_t bytes = shared->buffer->bytes();
    if (bytes > target().allocation)
      return failAt(
          param->loc,
          "sharedParams: @{} lies in a buffer of {} bytes; one allocation of target '{}' has at most {}",
          param->name, bytes, target().name, target().allocation);
    auto [base, fresh] = bases.try_emplace(shared->buffer.get(), target().fit(windows_.reserve, bytes));
    if (fresh) {
      windows_.windows.push_back({base->second, shared->buffer});
      windows_.reserve = alignTo(base->second + bytes, step);
    }
    param->place = Place{"persistent", base->second + shared->offset, nullptr};
  }
  std::ranges::sort(turns_);
  turns_.erase(std::unique(turns_.begin(), turns_.end()), turns_.end());
  if (options_.sharedParams.empty() || !borrowed_.empty()) return {};
  return failAt(module.loc, "sharedParams: the module has none of @{}",
                keysText(options_.sharedParams, ", @"));
}

Result<void> SessionProgram::compile(std::unique_ptr<Module> module) {
  if (module->stage == Stage::tensor) written_ = clone(*module);
  pipeline_ = options_.trainPipeline ? *options_.trainPipeline : ownPipeline(*module, options_.trainFunction);
  if (!pipeline_.empty()) {
    TG_TRY(Compiled trained, tg::compile(std::move(module), target(), passes(pipeline_)));
    info_.milliseconds = std::move(trained.milliseconds);
    module = std::move(trained.module);
  }
  if (module->stage == Stage::tensor) trained_ = clone(*module);
  if (device_) {
    const Target chosen = target(*module);
    TG_TRY(Compiled done, tg::compile(std::move(module), chosen, compileOptions(windows_.reserve)));
    for (auto& phase : done.milliseconds) info_.milliseconds.push_back(std::move(phase));
    module = std::move(done.module);
  }
  module_ = std::move(module);
  update_ = updateFunction(*module_, options_.trainFunction);
  info_.stepsPerUpdate = stepsPerUpdate();
  if (update_) repeated_.push_back(update_);
  for (const Item* func : module_->all(ItemKind::func))
    if (find(func->attrs, "every") && func != update_) repeated_.push_back(func);
  for (const Item* func : module_->all(ItemKind::func)) addSource(func->name, {written_, trained_, module_});
  return {};
}

void SessionProgram::addSource(const std::string& function, Source source) {
  const Module& original = source.trained ? *source.trained : *source.compiled;
  variants_[{function, 0}] = {function, source.compiled, capturesOf(*original.func(function)), 0};
  sources_[function] = std::move(source);
}

/// Creates the cache folder if it does not exist.
Result<void> SessionProgram::savePipelines(const std::string& file) const {
  TG_CHECK(makeFolder(options_.cache));
  return device_->saveCache(file);
}

Result<void> SessionProgram::makeRunner() {
  if (!device_) {
    InterpOptions interpreted;
    interpreted.ranks = options_.ranks;
    TG_TRY(runner_, InterpRunner::create(module_, interpreted, borrowed_));
    return {};
  }
  Stopwatch watch;
  // A cache that cannot be read or written only costs time.
  const std::string file = options_.cache.empty() ? "" : options_.cache + "/" + device_->cacheName();
  if (!file.empty()) (void)device_->loadCache(file);
  TG_TRY(std::unique_ptr<Executor> executor,
         Executor::create(*module_, device_, windows_, options_.onDiagnostic, options_.ranks));
  if (!options_.memory.empty()) executor->saveMemory();
  runner_ = std::move(executor);
  info_.milliseconds.emplace_back("pipelines", watch.milliseconds());
  if (file.empty()) return {};
  if (auto saved = savePipelines(file); !saved)
    tell(Severity::warning, "the compiled shaders are not cached: " + saved.error().message());
  return {};
}

void SessionProgram::measure() {
  for (const Item* param : module_->all(ItemKind::param)) info_.parameters += param->type.elements();
  takePlan(*module_, info_);
}

/// Compiles another module over the params and states of this one.
Result<std::unique_ptr<Module>> SessionProgram::compileSibling(std::unique_ptr<Module> module,
                                                               const std::string& captures) {
  if (!device_) return module;
  for (const auto& item : module->items)
    if (isStorage(item->kind) && module->stage < Stage::planned)
      item->place = module_->storage(item->name)->place;
  CompileOptions rest = compileOptions(persistentBytes(*module_));
  rest.keepCaptures = captures;
  const Target chosen = target(*module);
  TG_TRY(Compiled done, tg::compile(std::move(module), chosen, rest));
  return std::move(done.module);
}

Result<void> SessionProgram::attach(std::unique_ptr<Module> forward) {
  TG_CHECK(verify(*forward));
  for (const auto& item : forward->items) {
    if (item->kind == ItemKind::func && sources_.contains(item->name))
      return failAt(item->loc, "attach: the session has a function @{} already", item->name);
    if (!isStorage(item->kind)) continue;
    const Item* own = module_->find(item->kind, item->name);
    if (!own)
      return failAt(item->loc, "attach: the session has no {} @{}; it has {}", tg::name(item->kind),
                    item->name, namesOf(module_->all(item->kind)));
    if (own->type != item->type)
      return failAt(item->loc, "attach: @{} is {}, in the session {}", item->name, item->type.str(),
                    own->type.str());
  }
  std::shared_ptr<const Module> written;
  if (forward->stage == Stage::tensor) written = clone(*forward);
  TG_TRY(std::shared_ptr<const Module> done, compileSibling(std::move(forward), options_.keepCaptures));
  for (const Item* func : done->all(ItemKind::func)) {
    auto added = runner_->addFunction(done, func->name, func->name);
    if (added) continue;
    for (const Item* before : done->all(ItemKind::func)) runner_->dropFunction(before->name);
    return added;
  }
  for (const Item* func : done->all(ItemKind::func)) addSource(func->name, {written, written, done});
  return {};
}

Result<const Item*> SessionProgram::function(const std::string& name) const {
  if (auto found = sources_.find(name); found != sources_.end()) return found->second.compiled->func(name);
  return noFunction(name, sources_);
}

Result<std::vector<std::string>>
SessionProgram::wantedCaptures(const std::string& function, const Variant* variant, const Source& source,
                               const std::vector<std::string>& captures) const {
  const Module& original = source.trained ? *source.trained : *source.compiled;
  auto known = variant ? variant->captures : capturesOf(*original.func(function));
  std::vector<std::string> wanted;
  for (const std::string& capture : captures) {
    if (known.empty()) return fail("@{} has no captures: mark the values to read with tg.capture", function);
    if (capture == "*") {
      for (const auto& [name, type] : known) wanted.push_back(name);
      continue;
    }
    if (!known.contains(capture))
      return fail("@{} has no capture '{}'; it has {}", function, capture, keysText(known));
    wanted.push_back(capture);
  }
  return wanted;
}

/// The names and types of the arguments that a call gives, for a batch of `size`.
static std::vector<std::pair<std::string, Type>> argumentsOf(const Item& func, int64_t size,
                                                             const InputViews& given) {
  std::vector<std::pair<std::string, Type>> out;
  for (const auto& arg : func.body.args) {
    if (!given.contains(arg->name)) continue;  // the session fills it in
    Type type = arg->type;
    if (const int axis = batchAxis(*arg); axis >= 0) type.shape[axis] = size;
    out.emplace_back(arg->name, type);
  }
  return out;
}

Result<SessionProgram::Callable> SessionProgram::callable(const std::string& function, InputViews& inputs,
                                                          const std::vector<std::string>& captures) {
  TG_TRY(const Item* func, this->function(function));
  const Source source = sources_.at(function);
  TG_CHECK(checkNames(*func, inputs));
  TG_TRY(std::optional<int64_t> size, batchOf(*func, inputs));
  VariantId id{function, size && !hasBatch(*func, *size) ? *size : 0};
  const Variant* variant = valueIn(variants_, id);
  TG_TRY(std::vector<std::string> read, wantedCaptures(function, variant, source, captures));
  if (variant) {
    auto kept = capturesOf(*variant->module->func(function));
    auto lost = std::ranges::find_if(read, [&](const auto& name) { return !kept.contains(name); });
    if (lost != read.end()) {
      tell(Severity::remark,
           fmt::format("capture '{}' of @{} is not kept: the function is compiled once more", *lost,
                       function));
      std::vector<std::string> keeping = read;
      for (const auto& [name, type] : kept) keeping.push_back(name);
      TG_CHECK(makeVariant(source, id, keeping));
    }
  } else {
    TG_CHECK(checkTypes(function, argumentsOf(*func, *size, inputs), inputs));
    tell(Severity::remark, fmt::format("@{} is compiled for a batch of {}", function, *size));
    TG_CHECK(makeVariant(source, id, read));
    dropOldSizes(function);
  }
  Variant& ready = variants_.at(id);
  ready.used = ++clock_;
  return Callable{ready.key, ready.module->func(function), ready.captures, std::move(read)};
}

/// The function's module at stage tensor for another batch size, with gradients if the original had them.
Result<std::unique_ptr<Module>> SessionProgram::resized(const Source& source, const std::string& function,
                                                        int64_t size) {
  if (!source.written)
    return fail("@{} cannot be compiled for a batch of {}: the session was given a module of a later stage "
                "than tensor",
                function, size);
  const Item& written = *source.written->func(function);
  if (holdsGradients(*source.written, written))
    return failAt(written.loc,
                  "@{} holds gradients for the batch it was written with, so it cannot be compiled for one "
                  "of {}: give the session the module without them and the passes as trainPipeline",
                  function, size);
  std::unique_ptr<Module> module = clone(*source.written);
  keepFunctions(*module, [&](const Item& func) { return func.name == function; });
  std::string pipeline = fmt::format("set-batch{{n={}}}", size);
  if (print(written) != print(*source.trained->func(function))) pipeline += "," + pipeline_;
  TG_TRY(Compiled done, tg::compile(std::move(module), target(), passes(pipeline)));
  return std::move(done.module);
}

Result<void> SessionProgram::makeVariant(const Source& source, const VariantId& id,
                                         const std::vector<std::string>& captures) {
  const std::string& function = id.first;
  const auto& size = id.second;
  std::unique_ptr<Module> module;
  if (size) {
    TG_TRY(module, resized(source, function, size));
  } else {
    module = clone(*source.trained);
  }
  keepFunctions(*module, [&](const Item& func) { return func.name == function; });
  Variant variant{size ? fmt::format("{}#{}", function, size) : function, nullptr,
                  capturesOf(*module->func(function)), ++clock_};
  std::string kept = options_.keepCaptures;
  for (const std::string& capture : captures) kept += (kept.empty() ? "" : "|") + capture;
  TG_TRY(variant.module, compileSibling(std::move(module), kept));
  TG_CHECK(runner_->addFunction(variant.module, function, variant.key));
  variants_[id] = std::move(variant);
  return {};
}

/// Drops the least recently used batch sizes above the limit. Never drops the size as written, or the pinned one, whose
/// gradients can still be read.
void SessionProgram::dropOldSizes(const std::string& function) {
  auto first = variants_.upper_bound({function, 0});
  auto last = variants_.upper_bound({function, std::numeric_limits<int64_t>::max()});
  while (std::distance(first, last) > std::max(options_.cachedBatches, 1)) {
    auto oldest = first;
    for (auto it = first; it != last; ++it)
      if (it->second.key != pinned_ &&
          (oldest->second.key == pinned_ || it->second.used < oldest->second.used))
        oldest = it;
    if (oldest->second.key == pinned_) return;
    runner_->dropFunction(oldest->second.key);
    bool atFirst = oldest == first;
    auto next = variants_.erase(oldest);
    if (atFirst) first = next;
  }
}

Result<std::shared_ptr<const Module>> SessionProgram::moduleOf(const Callable& callable) const {
  for (const auto& [id, variant] : variants_)
    if (variant.key == callable.key) return variant.module;
  return noFunction(callable.key, sources_);
}

Result<std::unique_ptr<Module>> SessionProgram::moduleAt(Stage stage) const {
  if (stage == module_->stage) return clone(*module_);
  if (!trained_)
    return fail("the session was given a module of stage {} and keeps no earlier one", name(module_->stage));
  if (stage == Stage::tensor) return clone(*trained_);
  CompileOptions rest = compileOptions(windows_.reserve);
  rest.until = stage;
  TG_TRY(Compiled done, tg::compile(clone(*trained_), target(*trained_), rest));
  return std::move(done.module);
}

bool SessionProgram::hasHostScalar(std::string_view role) const {
  return std::ranges::any_of(sources_, [&](const auto& each) {
    return hostArgument(*each.second.compiled->func(each.first), role);
  });
}

std::vector<const Item*> SessionProgram::due(int64_t step) const {
  std::vector<const Item*> funcs;
  std::ranges::copy_if(repeated_, std::back_inserter(funcs),
                       [&](const Item* func) { return step % stepsPerCall(*func) == 0; });
  return funcs;
}

int64_t SessionProgram::stepsPerUpdate() const { return update_ ? stepsPerCall(*update_) : 1; }

int64_t SessionProgram::stepsPerCall(const Item& func) const {
  const Attr* every = find(func.attrs, "every");
  if (!every) return stepsPerUpdate();
  return every->integer / (update_ && func.name == update_->name ? options_.parts : 1);
}

std::string SessionProgram::optimizer() const {
  for (const Item* func : (trained_ ? *trained_ : *module_).all(ItemKind::func))
    if (const Attr* kind = find(func->attrs, "optimizer")) return kind->text;
  return {};
}

Result<ParamBuffers> SessionProgram::params() {
  ParamBuffers out;
  for (const Item* param : module_->all(ItemKind::param)) {
    auto borrowed = borrowed_.find(param->name);
    if (borrowed != borrowed_.end()) {
      out.insert(*borrowed);
      continue;
    }
    TG_TRY(ParamBuffer own, runner_->share(param->name));
    own.turn = turn_;
    out.emplace(param->name, std::move(own));
  }
  return out;
}

std::vector<std::unique_lock<std::recursive_mutex>> SessionProgram::lockMemory() {
  std::vector<std::unique_lock<std::recursive_mutex>> held;
  for (const auto& turn : turns_) held.emplace_back(*turn);
  return held;
}

Result<int64_t> SessionProgram::kernelCount(const std::string& key) const {
  const auto* executor = dynamic_cast<const Executor*>(runner_.get());
  if (!executor) return int64_t{0};
  TG_TRY(vulkan::CommandCounts counts, executor->counts(key));
  return counts.kernels();
}

}  // namespace tg
